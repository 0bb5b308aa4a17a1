#pragma once
/// \file
/// A folder for the temporary files of one process, removed also after that process was killed.
///
/// The folder holds a file `lock`, which the process that made it keeps locked (flock), and with
/// it each process that it starts: the kernel releases the lock when the last of them ends, however
/// it ends. The file names the machine: on network file systems, locks may hold on one machine
/// only. Before such a folder is made, those beside it are removed that belong to the same user,
/// name this machine, and that no process has locked.

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe {

/// Not thread-safe.
class TemporaryFolder {
 public:
  /// Makes `harpe-KIND-XXXXXX`, which its user alone can enter, in the folder that TMPDIR names; in
  /// /tmp where there is no such folder or its name is longer than `longest_parent` bytes. `kIo`
  /// where it cannot be made.
  static Result<TemporaryFolder> make(std::string_view kind, std::size_t longest_parent = 4096);
  /// The same in this folder, and hidden: `.harpe-KIND-XXXXXX`.
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

  std::filesystem::path path_;  ///< empty: moved from
  UniqueFd lock_;
};

}  // namespace harpe
