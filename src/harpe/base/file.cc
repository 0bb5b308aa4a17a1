#include "harpe/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/base/digest.h"
#include "harpe/base/text.h"

namespace harpe {
namespace fs = std::filesystem;
namespace {

Error failure(const fs::path& path, const std::string& what, int error) {
  return Error::io(path.string(), what + ": " + std::generic_category().message(error));
}

/// Returns advice about a file that cannot be read.
std::string hint(const fs::path& path, int error) {
  std::error_code ignored;
  if (error == EACCES) return "; ask its owner for permission to read it (see ls -l)";
  if (error != ENOENT) return {};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::exists(folder, ignored)) return "; the folder " + folder.string() + " does not exist";
  constexpr int kMostLooked = 10'000;
  std::vector<std::string> names;
  fs::directory_iterator entries(folder, ignored);
  for (int i = 0; !ignored && i < kMostLooked && entries != fs::directory_iterator(); ++i) {
    names.push_back(entries->path().filename().string());
    entries.increment(ignored);
  }
  const auto near = nearest(path.filename().string(), names);
  return near ? "; did you mean '" + (path.has_parent_path() ? (folder / *near).string() : *near) +
                    "'?"
              : "";
}

/// Owner of a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ > 2) ::close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  /// Closes the file. Returns false if the last data did not reach the file system.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

/// A new file in a directory, removed again unless it is renamed to its final path. If the file
/// system supports it, the file has no name until then, so that a killed process leaves none.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& directory) : directory_(directory), file_(create()) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Descriptor& file() { return file_; }
  /// Gives the file a name in its directory. Must be called before the file is closed.
  bool give_name() {
    if (!path_.empty()) return true;
    const std::string opened = link_to(file_.get());
    return with_free_name([&](const fs::path& path) {
             return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
           }) == 0;
  }
  bool rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  static std::string link_to(int file) { return "/proc/self/fd/" + std::to_string(file); }

  // Not mkstemp: its files are readable by their owner only, regardless of the umask.
  int create() {
    const int unnamed = ::open(directory_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (unnamed >= 0) {
      if (::access(link_to(unnamed).c_str(), F_OK) == 0) return unnamed;
      ::close(unnamed);  // without /proc it cannot get a name later
    }
    return with_free_name([](const fs::path& path) {
      return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    });
  }

  /// Calls `make` with new names until one is free, and returns its result.
  template <class Make>
  int with_free_name(const Make& make) {
    for (int attempt = 0;; ++attempt) {
      const fs::path path = directory_ / (".harpe-" + std::to_string(::getpid()) + "-" +
                                          std::to_string(attempt) + ".tmp");
      const int made = make(path);
      if (made >= 0) path_ = path;
      if (made >= 0 || errno != EEXIST) return made;
    }
  }

  fs::path directory_;
  fs::path path_;  ///< empty if the file has no name
  Descriptor file_;
};

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Writes to a device or pipe in place: renaming cannot replace it.
Status write_device(const fs::path& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.ok()) return failure(path, "cannot open for writing", errno);
  if (!write_all(file.get(), content)) return failure(path, "cannot write", errno);
  if (!file.close()) return failure(path, "cannot write", errno);
  return ok_status();
}

/// Returns the content of `file`. Errors name `path`.
/// \param regular  true if anything but a regular file is an error
Result<std::string> read_opened(const fs::path& path, const Descriptor& file, std::uint64_t limit,
                                bool regular) {
  if (!file.ok()) {
    const int error = errno;
    Error why = failure(path, "cannot read", error);
    why.diagnostics.front().message += hint(path, error);
    return why;
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failure(path, "cannot read", errno);
  if (S_ISDIR(status.st_mode)) return failure(path, "cannot read", EISDIR);
  if (regular && !S_ISREG(status.st_mode)) {
    return Error::io(path.string(), "is not a regular file");
  }

  const Error too_large =
      Error::io(path.string(), "is over the limit of " + std::to_string(limit) + " bytes");
  // The size is only a hint: it is 0 for files of /proc, and pipes have none.
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > limit) {
    return too_large;
  }
  constexpr std::size_t kChunk = 1 << 16;
  std::string content;
  content.reserve(static_cast<std::size_t>(std::max<off_t>(status.st_size, 0)) + kChunk);
  for (std::size_t size = 0;;) {
    content.resize(size + kChunk);
    const ssize_t count = ::read(file.get(), content.data() + size, kChunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure(path, "cannot read", errno);
    size += static_cast<std::size_t>(count);
    if (size > limit) return too_large;
    if (count == 0) {
      content.resize(size);
      return content;
    }
  }
}

}  // namespace

Status check_not_compressed(const fs::path& path, std::string_view content) {
  struct Form {
    std::string_view start, name, command;
  };
  constexpr std::array kForms = {
      Form{"\x1f\x8b", "gzip", "gunzip"}, Form{"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
      Form{std::string_view("\xfd\x37zXZ\0", 6), "xz", "unxz"}, Form{"BZh", "bzip2", "bunzip2"}};
  for (const Form& form : kForms) {
    if (!content.starts_with(form.start)) continue;
    const std::string command(form.command);
    return Error::io(path.string(),
                     "is compressed by " + std::string(form.name) + ": decompress it first (" +
                         (path == "-" ? command + " -c FILE | harpe ..."
                                      : command + " -k " + path.filename().string()) +
                         ")");
  }
  return ok_status();
}

Result<std::string> read_bytes(const fs::path& path, std::uint64_t limit) {
  const bool standard_input = path == "-";
  const Descriptor file(standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read_opened(path, file, limit, false);
}

Result<std::string> read_file(const fs::path& path, std::uint64_t limit) {
  std::string content = HARPE_TRY(read_bytes(path, limit));
  HARPE_TRY(check_not_compressed(path, content));
  return content;
}

Result<std::string> read_regular_file(const fs::path& path, std::uint64_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::string content = HARPE_TRY(read_opened(path, file, limit, true));
  HARPE_TRY(check_not_compressed(path, content));
  return content;
}

std::string file_digest(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  const Result<std::string> content = read_bytes(path);
  return content.ok() ? digest_text(fnv1a(*content)) : std::string();
}

FileStamp file_stamp(const fs::path& path) {
  struct stat file{};
  if (::stat(path.c_str(), &file) != 0) return {};
  return {.device = file.st_dev,
          .inode = file.st_ino,
          .size = file.st_size,
          .seconds = file.st_mtim.tv_sec,
          .nanoseconds = file.st_mtim.tv_nsec};
}

Status write_file(const fs::path& path, std::string_view content) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return failure(path, "cannot write", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_device(path, content);

  std::error_code unresolved;  // a link stays a link: its target is replaced
  const fs::path target = exists ? fs::canonical(path, unresolved) : path;
  if (unresolved) return failure(path, "cannot write", unresolved.value());
  TemporaryFile temporary(directory_of(target));
  Descriptor& file = temporary.file();
  if (!file.ok()) return failure(path, "cannot create a file in its directory", errno);
  if (exists && ::fchmod(file.get(), status.st_mode & 07777) != 0) {
    return failure(path, "cannot write", errno);
  }
  if (!write_all(file.get(), content)) return failure(path, "cannot write", errno);
  if (::fsync(file.get()) != 0) return failure(path, "cannot flush to the disk", errno);
  if (!temporary.give_name()) return failure(path, "cannot write", errno);
  if (!file.close()) return failure(path, "cannot write", errno);
  if (!temporary.rename_to(target)) return failure(path, "cannot write", errno);
  return ok_status();
}

Status check_writable(const fs::path& path) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return failure(path, "cannot write", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    if (::access(path.c_str(), W_OK) != 0) return failure(path, "cannot open for writing", errno);
    return ok_status();
  }
  std::error_code unresolved;
  const fs::path target = exists ? fs::canonical(path, unresolved) : path;
  if (unresolved) return failure(path, "cannot write", unresolved.value());
  TemporaryFile probe(directory_of(target));
  if (!probe.file().ok()) return failure(path, "cannot create a file in its directory", errno);
  constexpr std::size_t kSmall = 4096;
  if (!write_all(probe.file().get(), std::string(kSmall, '\n')) || !probe.file().close()) {
    return failure(path, "cannot write", errno);
  }
  return ok_status();
}

Status check_writable_directory(const fs::path& path) {
  fs::path there = path.lexically_normal();
  struct stat status{};
  while (!there.empty() && ::stat(there.c_str(), &status) != 0 && errno == ENOENT) {
    there = there.parent_path();
  }
  Status writable = check_writable((there.empty() ? fs::path(".") : there) / ".harpe-probe");
  if (writable.ok()) return writable;
  Error error = std::move(writable).error();
  for (Diagnostic& diagnostic : error.diagnostics) diagnostic.file = path.string();
  return error;
}

Status ensure_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return failure(path, "cannot create the directory", error.value());
  if (!fs::is_directory(path, error)) return failure(path, "cannot write into it", ENOTDIR);
  TemporaryFile probe(path);
  if (!probe.file().ok()) return failure(path, "cannot write into the directory", errno);
  return ok_status();
}

}  // namespace harpe
