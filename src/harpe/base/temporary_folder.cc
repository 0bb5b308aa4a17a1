#include "harpe/base/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace harpe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "lock";
constexpr int kMostLooked = 100'000;  // entries to check in a crowded folder
constexpr std::size_t kMostHostName = 255;

/// Returns the name of this machine. Some network file systems keep locks local to a machine, so a
/// free lock proves nothing about the processes of another machine.
std::string host_name() {
  std::array<char, kMostHostName + 1> name{};
  (void)::gethostname(name.data(), kMostHostName);
  return name.data();
}

bool is_of_this_host(int lock) {
  std::array<char, kMostHostName + 1> name{};
  const ssize_t size = ::pread(lock, name.data(), kMostHostName, 0);
  return size > 0 && std::string_view(name.data(), static_cast<std::size_t>(size)) == host_name();
}

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Returns true if no other user can rename entries of `parent`: otherwise a user could swap in a
/// folder between the check and the removal.
bool is_safe(const fs::path& parent) {
  struct stat status{};
  if (::stat(parent.c_str(), &status) != 0) return false;
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
  return (status.st_mode & S_ISVTX) != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Removes a folder if its lock is free. Keeps a folder without a lock file: its owner might be
/// creating it, or it is not Harpe's.
void remove_if_abandoned(const fs::path& path) {
  const UniqueFd folder(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat opened{}, there{};
  if (!folder || ::fstat(folder.get(), &opened) != 0 || opened.st_uid != ::geteuid() ||
      (opened.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return;
  }
  const UniqueFd lock(
      ::openat(folder.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || !is_of_this_host(lock.get())) return;
  if (::lstat(path.c_str(), &there) != 0 || !is_same(there, opened)) return;
  std::error_code ignored;
  fs::remove_all(path, ignored);  // does not follow links
}

void remove_abandoned(const fs::path& parent) {
  if (!is_safe(parent)) return;
  std::error_code failed;
  fs::directory_iterator entries(parent, failed);
  for (int i = 0; !failed && i < kMostLooked && entries != fs::directory_iterator(); ++i) {
    const std::string name = entries->path().filename().string();
    if (name.starts_with("harpe-") || name.starts_with(".harpe-")) {
      remove_if_abandoned(entries->path());
    }
    entries.increment(failed);
  }
}

/// Locks a new folder. Returns nullopt if another process locked it first, to remove it.
Result<std::optional<UniqueFd>> take_lock(const fs::path& file) {
  // Without O_CLOEXEC: a command or an agent that uses the folder can outlive its maker.
  UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (!lock) {
    return Error::io(file.string(), "cannot be created: " + std::generic_category().message(errno));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<UniqueFd>();
    return std::optional(std::move(lock));  // without locks no folder counts as abandoned
  }
  struct stat opened{}, there{};
  if (::fstat(lock.get(), &opened) != 0 || ::lstat(file.c_str(), &there) != 0 ||
      !is_same(opened, there)) {
    return std::optional<UniqueFd>();
  }
  // A folder whose lock names no host is never removed.
  const std::string host = host_name();
  (void)!::pwrite(lock.get(), host.data(), host.size(), 0);
  return std::optional(std::move(lock));
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::make(std::string_view kind, std::size_t longest_parent) {
  std::error_code failed;
  fs::path parent = fs::temp_directory_path(failed);
  if (failed || parent.native().size() > longest_parent) parent = "/tmp";
  return make_in(parent, "harpe-" + std::string(kind));
}

Result<TemporaryFolder> TemporaryFolder::make_hidden(const fs::path& parent,
                                                     std::string_view kind) {
  return make_in(parent, ".harpe-" + std::string(kind));
}

Result<TemporaryFolder> TemporaryFolder::make_in(const fs::path& parent,
                                                 const std::string& beginning) {
  remove_abandoned(parent);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    std::string name = (parent / (beginning + "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) {
      return Error::io(name, "cannot be created: " + std::generic_category().message(errno));
    }
    auto lock = take_lock(fs::path(name) / kLock);
    if (!lock.ok()) {
      ::rmdir(name.c_str());
      return std::move(lock).error();
    }
    if (*lock) return TemporaryFolder(name, *std::move(*lock));
  }
  return Error::io(parent.string(), "other processes remove the folders created in it");
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace harpe
