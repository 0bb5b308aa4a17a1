#pragma once
/// \file
/// A folder for the temporary files of one process, removed even if that process is killed.
///
/// The folder contains a file `lock`, which the process that made it and the processes that it
/// starts keep locked (flock): the kernel releases the lock when the last of them ends, however it
/// ends. The file contains the name of the machine, because on network file systems locks may hold
/// on one machine only. Before a new folder is made, abandoned folders beside it are removed: those
/// of the same user and this machine that no process has locked.

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe {

/// A temporary folder; the destructor removes it with all its contents. Not thread-safe.
class TemporaryFolder {
 public:
  /// Makes `harpe-KIND-XXXXXX`, accessible only to its user, in the folder that TMPDIR names, or in
  /// /tmp if this folder does not exist or its name is longer than `longest_parent` bytes. Fails
  /// with `kIo` if it cannot be made.
  static Result<TemporaryFolder> make(std::string_view kind, std::size_t longest_parent = 4096);
  /// Makes a hidden folder, `.harpe-KIND-XXXXXX`, in `parent`.
  static Result<TemporaryFolder> make_hidden(const std::filesystem::path& parent,
                                             std::string_view kind);
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// Removes the folder with all that is in it.
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder(std::filesystem::path path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  static Result<TemporaryFolder> make_in(const std::filesystem::path& parent,
                                         const std::string& beginning);

  std::filesystem::path path_;  ///< empty if moved from
  UniqueFd lock_;
};

}  // namespace harpe
