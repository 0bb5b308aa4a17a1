#include "harpe/node/agent/trusted_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace harpe::node {
namespace fs = std::filesystem;
namespace {

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

Error file_failure(const fs::path& path, const char* what, int error) {
  const bool shortage = error == ENOSPC || error == EDQUOT || error == EROFS || error == EIO ||
                        error == EMFILE || error == ENFILE || error == ENOMEM;
  return {shortage ? ErrorCode::kUnavailable : ErrorCode::kIo,
          {{.file = path.string(), .message = std::string(what) + ": " + reason_of(error)}}};
}

bool is_trusted(uid_t owner) {
  return owner == 0 || owner == ::geteuid();
}

/// Returns the reason why other users could change the file or directory; empty if they cannot.
std::string why_writable(const struct stat& status, bool group_may) {
  if (!is_trusted(status.st_uid)) {
    return "belongs to user " + std::to_string(status.st_uid) +
           ", who could change it; use one that belongs to root" +
           (::geteuid() == 0 ? "" : ", or to you");
  }
  if (S_ISLNK(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0) return {};
  if ((status.st_mode & S_IWOTH) != 0) {
    return "can be written by everybody; remove that permission (chmod o-w)";
  }
  if ((status.st_mode & S_IWGRP) != 0 && !group_may) {
    return "can be written by its group; remove that permission (chmod g-w)";
  }
  return {};
}

std::vector<std::string> why_directories_not_trusted(const fs::path& directory, bool group_may) {
  std::vector<std::string> reasons;
  const auto look_at = [&](const fs::path& at, bool links, bool group) {
    struct stat status{};
    if (::lstat(at.c_str(), &status) != 0) {
      reasons.push_back(at.string() + " cannot be inspected: " + reason_of(errno));
    } else if (S_ISLNK(status.st_mode) == links) {
      const std::string reason = why_writable(status, group);
      if (!reason.empty()) reasons.push_back(at.string() + " " + reason);
    }
  };
  std::error_code error;
  const fs::path named = fs::absolute(directory, error).lexically_normal();
  const fs::path real = fs::canonical(named, error);
  if (error) return {directory.string() + " cannot be inspected: " + error.message()};
  for (fs::path at = named; at != at.root_path(); at = at.parent_path()) look_at(at, true, false);
  for (fs::path at = real;; at = at.parent_path()) {
    look_at(at, false, group_may && at != real);
    if (at == at.root_path()) break;
  }
  return reasons;
}

fs::path directory_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

std::vector<std::string> why_not_trusted(const fs::path& file, bool group_may) {
  std::vector<std::string> reasons;
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0) {
    reasons.push_back(file.string() + " cannot be inspected: " + reason_of(errno));
  } else if (!S_ISREG(status.st_mode)) {
    reasons.push_back(file.string() + " is not a regular file");
  } else if (const std::string reason = why_writable(status, false); !reason.empty()) {
    reasons.push_back(file.string() + " " + reason);
  }
  for (std::string& reason : why_directories_not_trusted(directory_of(file), group_may)) {
    reasons.push_back(std::move(reason));
  }
  return reasons;
}

Status check_trusted_directory(const fs::path& directory) {
  Diagnostics diagnostics;
  for (const std::string& reason : why_directories_not_trusted(directory, true)) {
    diagnostics.add(reason);
  }
  if (diagnostics.empty()) return ok_status();
  return Error{ErrorCode::kNoPermission, diagnostics.take()};
}

Result<UniqueFd> open_trusted(const fs::path& file, int flags, unsigned mode) {
  if (struct stat directory{}; ::stat(directory_of(file).c_str(), &directory) != 0) {
    return file_failure(file, "cannot open", errno);
  }
  HARPE_TRY(check_trusted_directory(directory_of(file)));
  UniqueFd opened(
      ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode));
  if (!opened) {
    if (errno == ELOOP) return Error::io(file.string(), "is a symbolic link, which is not allowed");
    // The error of a pipe without a reader.
    if (errno == ENXIO) return Error::io(file.string(), "is not a regular file");
    return file_failure(file, "cannot open", errno);
  }
  struct stat status{};
  if (::fstat(opened.get(), &status) != 0) return file_failure(file, "cannot be inspected", errno);
  if (!S_ISREG(status.st_mode)) return Error::io(file.string(), "is not a regular file");
  if (const std::string reason = why_writable(status, false); !reason.empty()) {
    return Error{ErrorCode::kNoPermission, {{.message = file.string() + " " + reason}}};
  }
  return opened;
}

Result<std::string> read_trusted(const fs::path& file, std::size_t limit) {
  auto opened = HARPE_TRY(open_trusted(file, O_RDONLY));
  std::string content;
  constexpr std::size_t kChunk = 1 << 16;
  for (;;) {
    const std::size_t size = content.size();
    content.resize(size + kChunk);
    const ssize_t count = ::read(opened.get(), content.data() + size, kChunk);
    if (count < 0 && errno != EINTR) return file_failure(file, "cannot read", errno);
    content.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (content.size() > limit) {
      return Error::io(file.string(), "is over the limit of " + std::to_string(limit) + " bytes");
    }
    if (count == 0) return content;
  }
}

}  // namespace harpe::node
