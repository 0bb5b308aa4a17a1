#include "harpe/device/hw/sim/state_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"

namespace harpe::device {
namespace {

static_assert(std::is_trivially_copyable_v<SimulatedGpuState>);
static_assert(std::is_trivially_copyable_v<WorkTable>);

constexpr char kMagic[8] = {'H', 'R', 'P', 'S', 'I', 'M', '0', '1'};

struct StateHeader {
  char magic[8];
  std::uint64_t cell_bytes;
  std::uint64_t digest;
  std::int64_t epoch_ns;
  std::uint64_t gpus;
  char boot[48];  ///< id of the boot, because the clock restarts with the machine
};

constexpr std::size_t kCellsAt = (sizeof(StateHeader) + 63) / 64 * 64;

std::size_t bytes_for(std::size_t gpus) {
  return kCellsAt + gpus * sizeof(GpuCell);
}

void write_boot(char (&boot)[48]) {
  std::memset(boot, 0, sizeof boot);
  const Result<std::string> id = read_file("/proc/sys/kernel/random/boot_id", 4096);
  if (id.ok()) trim(*id).copy(boot, sizeof boot - 1);
}

GpuCell* cells(void* memory) {
  return reinterpret_cast<GpuCell*>(static_cast<char*>(memory) + kCellsAt);
}

void fill(void* memory, const std::vector<SimulatedGpuState>& initial,
          const StateMemory::Origin& origin) {
  auto* header = new (memory) StateHeader{};
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->cell_bytes = sizeof(GpuCell);
  header->digest = origin.digest;
  header->epoch_ns = origin.epoch_ns;
  header->gpus = initial.size();
  write_boot(header->boot);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (std::size_t i = 0; i < initial.size(); ++i) {
    auto* cell = new (cells(memory) + i) GpuCell{};
    pthread_mutex_init(&cell->mutex, &attributes);
    cell->state[0] = initial[i];
  }
  pthread_mutexattr_destroy(&attributes);
}

Error system_error(const std::filesystem::path& file, const std::string& what) {
  return Error::io(file.string(), what + ": " + std::strerror(errno));
}

Result<void*> mapped(int fd, std::size_t bytes, const std::filesystem::path& file) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_error(file, "cannot map the state of the simulation");
  return memory;
}

/// Writes the whole file under a temporary name, then renames it unless another process was faster.
Status make_file(const std::filesystem::path& file, const std::vector<SimulatedGpuState>& initial,
                 const StateMemory::Origin& origin, bool everyone) {
  std::string name = file.string() + ".XXXXXX";
  const UniqueFd fd(mkstemp(name.data()));
  if (fd.get() < 0) return system_error(file, "cannot create the state of the simulation");
  const auto finish = [&]() -> Status {
    const std::size_t bytes = bytes_for(initial.size());
    if (fchmod(fd.get(), everyone ? 0666 : 0600) != 0 ||
        posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) != 0) {
      return system_error(file, "cannot create the state of the simulation");
    }
    void* const memory = HARPE_TRY(mapped(fd.get(), bytes, file));
    fill(memory, initial, origin);
    munmap(memory, bytes);
    if (link(name.c_str(), file.c_str()) != 0 && errno != EEXIST) {
      return system_error(file, "cannot create the state of the simulation");
    }
    return ok_status();
  };
  Status status = finish();
  unlink(name.c_str());
  return status;
}

/// Relation of an existing file to the configuration.
enum class Fit { kSame, kEarlierBoot, kOther };

Fit fit(const StateHeader& header, const StateMemory::Origin& wanted, std::size_t gpus) {
  char boot[48];
  write_boot(boot);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 ||
      header.cell_bytes != sizeof(GpuCell) || header.digest != wanted.digest ||
      header.gpus != gpus) {
    return Fit::kOther;
  }
  return std::memcmp(header.boot, boot, sizeof boot) == 0 ? Fit::kSame : Fit::kEarlierBoot;
}

Status check_owner(const struct stat& status, const std::filesystem::path& file, bool everyone) {
  if (!S_ISREG(status.st_mode)) {
    return Error::io(file.string(), "is not a file, so it cannot hold the state of a simulation");
  }
  if (everyone || status.st_uid == geteuid()) return ok_status();
  return Error::of(ErrorCode::kNoPermission,
                   file.string() + ": belongs to another user; to share simulated GPUs between " +
                       "users, set shared_by = \"everyone\" in the configuration");
}

/// Removes the file that `fd` has open, unless another process has replaced it.
void remove_if_still(int fd, const struct stat& opened, const std::filesystem::path& file) {
  struct stat there{};
  flock(fd, LOCK_EX);
  if (stat(file.c_str(), &there) == 0 && there.st_ino == opened.st_ino) unlink(file.c_str());
}

/// Limits values to their valid ranges: other users can write memory that everyone shares, and its
/// values must not cause accesses out of bounds.
void keep_in_bounds(SimulatedGpuState& state, WorkTable* tables) {
  constexpr std::int64_t kLongestNs = std::int64_t{1} << 61;  // 70 years
  state.time_ns = std::clamp<std::int64_t>(state.time_ns, 0, kLongestNs);
  state.assignments = std::clamp(state.assignments, 0, kMaxClockOrders);
  state.mark = std::max<std::int64_t>(state.mark, -1);
  for (int i = 0; i < kMaxStreams; ++i) {
    tables[i].points = std::clamp(tables[i].points, 0, kMaxWorkPoints);
    if (tables[i].points == 0) state.stream[i].phase = SimulatedStream::Phase::kFree;
  }
}

}  // namespace

Result<std::unique_ptr<StateMemory>> StateMemory::make_private(
    const std::vector<SimulatedGpuState>& initial, std::int64_t epoch_ns) {
  const std::size_t bytes = bytes_for(initial.size());
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error::internal("no memory for a simulation");
  fill(memory, initial, {0, epoch_ns});
  return std::unique_ptr<StateMemory>(new StateMemory(memory, bytes));
}

Result<std::unique_ptr<StateMemory>> StateMemory::open_shared(
    const std::filesystem::path& file, const std::vector<SimulatedGpuState>& initial, Origin wanted,
    bool everyone) {
  const std::size_t bytes = bytes_for(initial.size());
  for (int attempt = 0; attempt < 10; ++attempt) {
    const UniqueFd fd(open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd.get() < 0) {
      if (errno != ENOENT) return system_error(file, "cannot open the state of the simulation");
      HARPE_TRY(make_file(file, initial, wanted, everyone));
      continue;
    }
    struct stat status{};
    if (fstat(fd.get(), &status) != 0) return system_error(file, "cannot be inspected");
    HARPE_TRY(check_owner(status, file, everyone));
    Fit found = Fit::kOther;
    if (status.st_size == static_cast<off_t>(bytes)) {
      void* const memory = HARPE_TRY(mapped(fd.get(), bytes, file));
      found = fit(*static_cast<const StateHeader*>(memory), wanted, initial.size());
      if (found == Fit::kSame) return std::unique_ptr<StateMemory>(new StateMemory(memory, bytes));
      munmap(memory, bytes);
    }
    if (found == Fit::kOther) {
      return Error::io(file.string(),
                       "holds the state of another simulation, or of another version of Harpe: "
                       "remove it when no process uses it any more, or set another state_file");
    }
    remove_if_still(fd.get(), status, file);
  }
  return Error::io(file.string(), "was removed again each time it was created");
}

StateMemory::~StateMemory() {
  munmap(memory_, bytes_);
}

std::int64_t StateMemory::epoch_ns() const {
  return static_cast<const StateHeader*>(memory_)->epoch_ns;
}

GpuCell& StateMemory::cell(int gpu) {
  return cells(memory_)[gpu];
}

void StateMemory::update(int gpu,
                         const std::function<void(SimulatedGpuState&, WorkTable*)>& change) {
  GpuCell& here = cell(gpu);
  // If a process died while it held the lock, the state is as before its change.
  if (pthread_mutex_lock(&here.mutex) == EOWNERDEAD) pthread_mutex_consistent(&here.mutex);
  const std::uint32_t newest = here.newest.load(std::memory_order_acquire) & 1;
  SimulatedGpuState state = here.state[newest];
  keep_in_bounds(state, here.table);
  change(state, here.table);
  here.state[1 - newest] = state;
  here.newest.store(1 - newest, std::memory_order_release);
  pthread_mutex_unlock(&here.mutex);
}

}  // namespace harpe::device
