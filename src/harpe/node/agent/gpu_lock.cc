#include "harpe/node/agent/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

/// Of one size, so that the next holder overwrites all of it.
constexpr int kNumberWidth = 12;

/// The process that wrote itself into a locked file, while it lives.
std::optional<std::int64_t> holder_of(int file) {
  std::array<char, kNumberWidth> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  const auto pid = parse_integer(trim({text.data(), static_cast<std::size_t>(size)}));
  if (!pid || *pid <= 0) return std::nullopt;
  if (::kill(static_cast<pid_t>(*pid), 0) != 0 && errno != EPERM) return std::nullopt;
  return pid;
}

/// Returns the path that the lock file names. Empty if it names none: the file has had no holder,
/// or one of an earlier version.
fs::path state_named_in(int file) {
  std::array<char, PATH_MAX + 1> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), kNumberWidth);
  if (size <= 0) return {};
  return std::string(trim({text.data(), static_cast<std::size_t>(size)}));
}

/// The directory of locks of real GPUs is made: agents must not depend on what installed it.
Status make_lock_directory(const fs::path& directory) {
  if (directory.parent_path() != net::kRuntimeDirectory) return ok_status();
  HARPE_TRY(net::usable_directory(directory.parent_path()));
  if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return ok_status();
  return Error::io(directory.string(),
                   "cannot be made, and agents keep out of each other's way "
                   "there: run it as root, or with --dry-run, which sets "
                   "nothing");
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
  // Only messages depend on it: a full disk must not keep an agent from starting.
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
    // Half a path must not stay: a name that cannot be written is none.
    if (::pwrite(lock.get(), text.data(), text.size(), kNumberWidth) != size ||
        ::ftruncate(lock.get(), kNumberWidth + size) != 0) {
      const std::string why = std::generic_category().message(errno);
      (void)!::ftruncate(lock.get(), kNumberWidth);
      return Error::io(state_file.string(), "cannot be named in the lock of a GPU: " + why);
    }
  }
  return ok_status();
}

}  // namespace harpe::node
