#pragma once
/// \file
/// Reading and writing of whole files: the only access to the file system outside of daemons.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// Default limit of a file's size: larger files are rejected.
inline constexpr std::uint64_t kFileLimit = 1ULL << 31;

/// Reads a whole file, which must not be compressed. Fails with `kIo`, naming the file, if it
/// cannot be read, is a directory, exceeds `limit` bytes, or fails `check_not_compressed`. "-"
/// reads standard input.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// Reads a file like `read_file`, but accepts compressed content: for readers that decompress it
/// (harpe/command/input/input_file.h).
Result<std::string> read_bytes(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// Fails with `kIo` if `content` is compressed by gzip, zstd, xz or bzip2. The error names `path`
/// and the command that decompresses it.
Status check_not_compressed(const std::filesystem::path& path, std::string_view content);

/// Reads a file like `read_file`, but fails without blocking if `path` is a pipe or a device: a
/// running daemon rereads files that others may have replaced.
Result<std::string> read_regular_file(const std::filesystem::path& path,
                                      std::uint64_t limit = kFileLimit);

/// Returns the `digest_text` of a regular file's content; empty if the file cannot be read or is
/// not regular (a pipe gives its content only once).
std::string file_digest(const std::filesystem::path& path);

/// The version of a file. If two stamps of a path differ, the file was replaced or changed between.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Returns the stamp of a file; all zero if it does not exist.
FileStamp file_stamp(const std::filesystem::path& path);

/// Writes `content` to a temporary file in the same directory, flushes it to the disk and renames
/// it to `path`. On an error (full disk, no permission) removes the temporary file, leaves `path`
/// unchanged and names `path` in the error. Writes to devices and pipes directly.
Status write_file(const std::filesystem::path& path, std::string_view content);

/// Fails like `write_file` if a small file cannot be written to `path` now; leaves no file behind.
/// Call it before long work whose result is written there; the disk may still fill up later.
Status check_writable(const std::filesystem::path& path);

/// Checks the same for files in a directory that may not exist yet.
Status check_writable_directory(const std::filesystem::path& path);

/// Creates the directory and its parents if they are missing; checks that it is writable.
Status ensure_directory(const std::filesystem::path& path);

}  // namespace harpe
