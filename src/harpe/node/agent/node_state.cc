#include "harpe/node/agent/node_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {

namespace fs = std::filesystem;
namespace {

/// Fixed width of the process id, so that the next holder overwrites all of it.
constexpr int kNumberWidth = 12;

/// Returns the process id in a locked file; nullopt if there is none or the process has ended.
std::optional<std::int64_t> holder_of(int file) {
  std::array<char, kNumberWidth> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  const auto pid = parse_integer(trim({text.data(), static_cast<std::size_t>(size)}));
  if (!pid || *pid <= 0) return std::nullopt;
  if (::kill(static_cast<pid_t>(*pid), 0) != 0 && errno != EPERM) return std::nullopt;
  return pid;
}

/// Returns the path in the lock file. It is empty if the file has had no holder, or a holder of an
/// earlier version of the agent.
fs::path state_named_in(int file) {
  std::array<char, PATH_MAX + 1> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), kNumberWidth);
  if (size <= 0) return {};
  return std::string(trim({text.data(), static_cast<std::size_t>(size)}));
}

/// Creates the directory of locks of real GPUs, so that agents do not depend on an installation.
Status make_lock_directory(const fs::path& directory) {
  if (directory.parent_path() != net::kRuntimeDirectory) return ok_status();
  HARPE_TRY(net::usable_directory(directory.parent_path()));
  if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return ok_status();
  return Error::io(
      directory.string(),
      "cannot be created, and agents need it for their locks: run the agent as root, or with "
      "--dry-run, which changes no settings");
}

}  // namespace

Result<UniqueFd> lock_file(const fs::path& file, const std::string& what) {
  auto opened = open_trusted(file, O_RDWR | O_CREAT);
  if (!opened.ok()) return opened;
  if (::flock(opened->get(), LOCK_EX | LOCK_NB) != 0) {
    const auto holder = holder_of(opened->get());
    return Error::of(
        ErrorCode::kConflict,
        "another agent" + (holder ? " (process " + std::to_string(*holder) + ")" : std::string()) +
            " is running with " + what + "; stop that one first (" + file.string() + ")");
  }
  std::array<char, kNumberWidth + 1> text{};
  std::snprintf(text.data(), text.size(), "%-*d\n", kNumberWidth - 1, static_cast<int>(::getpid()));
  // Only messages use the text, so a full disk must not prevent an agent from starting.
  [[maybe_unused]] const auto written = ::pwrite(opened->get(), text.data(), kNumberWidth, 0);
  return opened;
}

Result<GpuLocks> lock_gpus(const std::vector<std::unique_ptr<Gpu>>& gpus) {
  GpuLocks locks;
  std::set<fs::path> files;
  for (const auto& gpu : gpus) {
    const fs::path file = gpu->owner_lock();
    if (file.empty() || !files.insert(file).second) continue;
    HARPE_TRY(make_lock_directory(file.parent_path()));
    const GpuIdentity& identity = gpu->identity();
    auto lock = HARPE_TRY(
        lock_file(file, "GPU " + std::to_string(identity.index) + " (" + identity.uuid + ")"));
    if (const fs::path state = state_named_in(lock.get()); state.is_absolute()) {
      locks.last_states.insert(state);
    }
    locks.files.push_back(std::move(lock));
  }
  return locks;
}

Status name_state(const GpuLocks& locks, const fs::path& state_file) {
  std::error_code failed;
  const std::string text = fs::absolute(state_file, failed).lexically_normal().string() + "\n";
  const auto size = static_cast<ssize_t>(text.size());
  for (const UniqueFd& lock : locks.files) {
    // A path that cannot be written completely is removed.
    if (::pwrite(lock.get(), text.data(), text.size(), kNumberWidth) != size ||
        ::ftruncate(lock.get(), kNumberWidth + size) != 0) {
      const std::string why = std::generic_category().message(errno);
      (void)!::ftruncate(lock.get(), kNumberWidth);
      return Error::io(state_file.string(), "cannot be written into the lock of a GPU: " + why);
    }
  }
  return ok_status();
}

namespace {

constexpr std::size_t kMostStateBytes = 4 << 20;
constexpr std::size_t kMostEvents = 100;

}  // namespace

void AgentEvents::add(const std::string& text) {
  const MutexLock lock(mutex_);
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  events_.push_back(text);
  if (on_event_) on_event_(text);
}

std::vector<std::string> AgentEvents::all() const {
  const MutexLock lock(mutex_);
  return events_;
}

void AgentEvents::silence() {
  const MutexLock lock(mutex_);
  on_event_ = nullptr;
}

Status NodeState::open(const std::filesystem::path& file, const Devices& devices,
                       AgentEvents& events) {
  HARPE_TRY(take_locks(file, devices));
  auto boot_id = HARPE_TRY(this_boot_id());
  constexpr std::size_t kLeast = 4096;
  auto opened = HARPE_TRY(file_.open(
      make_file_storage(file, kLeast + devices.gpus.size() * kStateBytesPerGpu), boot_id));
  for (const std::string& text : opened.events) events.add(text);
  to_restore_ = std::move(opened.to_restore);
  last_stopped_ = opened.stopped;
  std::error_code ignored;
  const auto own = std::filesystem::weakly_canonical(file, ignored);
  for (const std::filesystem::path& other : gpu_locks_.last_states) {
    if (std::filesystem::weakly_canonical(other, ignored) != own)
      HARPE_TRY(adopt_entries(other, boot_id, devices, events));
  }
  if (const Status named = name_state(gpu_locks_, file); !named.ok()) {
    events.add(named.error().text() +
               "; if this agent is killed, and the next one has another state " +
               "file, that one does not restore the settings that this one changed");
  }
  if (const std::string trouble = file_.trouble(); !trouble.empty()) {
    events.add("the state file cannot be written, and no setting is changed until it can: " +
               trouble);
  }
  return ok_status();
}

/// Locks the state file and the GPUs, because two agents would undo each other's settings.
Status NodeState::take_locks(const std::filesystem::path& file, const Devices& devices) {
  auto state = lock_file(file.string() + ".lock", "the state file " + file.string());
  if (!state.ok()) {
    Error error = std::move(state).error();
    if (error.code == ErrorCode::kIo) {
      error.diagnostics.push_back({.message = "the agent needs its own directory for its state"});
    }
    return error;
  }
  lock_ = *std::move(state);
  gpu_locks_ = HARPE_TRY(lock_gpus(devices.gpus));
  return ok_status();
}

/// Takes over the entries of these GPUs from the state file of a killed agent, so that this agent
/// restores them. Fails if a running agent has that file.
Status NodeState::adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                                const Devices& devices, AgentEvents& events) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return ok_status();
  }
  const auto text = read_trusted(file, kMostStateBytes);
  auto found =
      text.ok() ? parse_saved_state(*text, file.string()) : Result<SavedState>(text.error());
  if (!found.ok()) {
    events.add("the state file " + file.string() + " of the agent that had these GPUs before " +
               "cannot be used: " + found.error().text() +
               "; settings that it left changed, if any, " +
               "are not restored: compare the GPUs with that file (harpe devices)");
    return ok_status();
  }
  std::erase_if(found->gpus, [&](const SavedGpu& saved) {
    return std::ranges::none_of(
        devices.gpus, [&](const auto& gpu) { return gpu->identity().uuid == saved.uuid; });
  });
  if (found->boot_id != boot_id || found->gpus.empty()) return ok_status();
  const auto lock = lock_file(file.string() + ".lock", "the state file " + file.string() +
                                                           ", which states what settings GPU " +
                                                           found->gpus[0].uuid + " had before");
  if (!lock.ok() && lock.error().code == ErrorCode::kConflict) return lock.error();
  if (!lock.ok()) {  // for example if the path is read-only for this agent
    for (const SavedGpu& saved : found->gpus) {
      const bool is_new = !file_.entry(saved.uuid).has_value();
      if (is_new && file_.put(saved).ok()) to_restore_.push_back(saved);
    }
    events.add("restores the settings in " + file.string() +
               " for its GPUs, but cannot remove them from that file: " + lock.error().text());
    return ok_status();
  }
  StateFile other;
  HARPE_TRY(other.open(make_file_storage(file, text->size()), boot_id));
  for (const SavedGpu& saved : found->gpus) {
    // An entry in both files was copied by an agent that was killed before it removed the original.
    const bool is_known = file_.entry(saved.uuid).has_value();
    if (!is_known) to_restore_.push_back(saved);
    if (is_known || file_.put(saved).ok()) (void)other.take_out(saved.uuid);
  }
  events.add("took over from " + file.string() + ", the state file of an agent that was killed: " +
             std::to_string(found->gpus.size()) + " of these GPUs");
  return ok_status();
}

}  // namespace harpe::node
