#pragma once
/// \file
/// Reading and writing of whole files: the only access to the file system outside of daemons.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// The size over which a file is refused if a reader names no other limit.
inline constexpr std::uint64_t kFileLimit = 1ULL << 31;

/// Returns the whole file, which must not be compressed. Fails with `kIo` naming the file when it
/// cannot be read, is a directory, is over `limit` bytes, or fails `check_not_compressed`.
/// "-" reads standard input.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// Does the same as read_file, for content that may be compressed: for readers that decompress it
/// (harpe/command/input/input_file.h).
Result<std::string> read_bytes(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// Fails with `kIo` if `content` is compressed by gzip, zstd, xz or bzip2. The error names `path`
/// and the command that decompresses it.
Status check_not_compressed(const std::filesystem::path& path, std::string_view content);

/// Does the same as read_file for regular files only. A pipe or a device is an error, and opening
/// it does not wait: a running daemon reads files again that others may have replaced.
Result<std::string> read_regular_file(const std::filesystem::path& path,
                                      std::uint64_t limit = kFileLimit);

/// Returns the `digest_text` of a regular file's content. Returns an empty text if the file cannot
/// be read or is not regular: a pipe does not give its content twice.
std::string file_digest(const std::filesystem::path& path);

/// Identifies a version of a file. If the stamps of a path differ, the file was replaced or written
/// in between.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Returns the stamp of a file; all zero if it does not exist.
FileStamp file_stamp(const std::filesystem::path& path);

/// Writes `content` to a temporary file in the same directory, flushes it to the disk and renames
/// it to `path`. On an error (full disk, no permission) removes the temporary file, leaves `path`
/// as it was, and names it.
Status write_file(const std::filesystem::path& path, std::string_view content);

/// Fails as `write_file` would if a small file cannot be written there now, and leaves nothing
/// behind. Call it before long work whose result is written there; the disk may still fill up
/// later.
Status check_writable(const std::filesystem::path& path);

/// Does the same for files in a directory that may not exist yet.
Status check_writable_directory(const std::filesystem::path& path);

/// Creates the directory and its parents if they are missing, and checks that files can be written
/// into it.
Status ensure_directory(const std::filesystem::path& path);

}  // namespace harpe
