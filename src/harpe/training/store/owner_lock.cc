#include "harpe/training/store/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

namespace fs = std::filesystem;

Error failure(const fs::path& path, const std::string& what, int error) {
  return {
      error == EACCES || error == EPERM || error == EROFS ? ErrorCode::kNoPermission
                                                          : ErrorCode::kIo,
      {{.file = path.string(), .message = what + ": " + std::generic_category().message(error)}}};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown machine";
}

/// What the holder wrote, cut to printable ASCII as any process may have written it.
std::string holder(int fd) {
  std::array<char, 400> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::string said;
  for (ssize_t i = 0; i < size; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    if (c >= ' ' && c <= '~') said += c;
  }
  return said.empty() ? "another process" : said;
}

}  // namespace

Result<OwnerLock> OwnerLock::take(const fs::path& database, const std::string& name) {
  // Whatever path or link leads to it, the same file has the same lock.
  std::error_code unresolved;
  fs::path path = fs::weakly_canonical(database, unresolved);
  if (unresolved) path = database;
  path += "-owner";
  OwnerLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.fd_ < 0) {
    const int error = errno;
    std::error_code ignored;
    if (error == ENOENT && !fs::exists(path.parent_path(), ignored)) {
      return Error::io(database.string(),
                       "its directory does not exist; create it for the user "
                       "that the server runs as");
    }
    return failure(path, "cannot open the lock of the server's database", error);
  }
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failure(path, "cannot lock", errno);
    return Error{ErrorCode::kConflict,
                 {{.file = database.string(),
                   .message = "is in use by " + holder(lock.fd_) +
                              "; one server at a time can use a SQLite file: stop that one, give "
                              "this one another file, or use PostgreSQL for several servers"}}};
  }
  const std::string me = "process " + std::to_string(::getpid()) + " on " + host_name() + " (" +
                         name.substr(0, 200) + ")\n";
  // Only a help for people: a full disk is no reason to refuse.
  if (::ftruncate(lock.fd_, 0) != 0 || ::pwrite(lock.fd_, me.data(), me.size(), 0) < 0) errno = 0;
  return lock;
}

OwnerLock::OwnerLock(OwnerLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

OwnerLock& OwnerLock::operator=(OwnerLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnerLock::~OwnerLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace harpe
