#pragma once
/// \file
/// The one seam to the file system: whole files in, whole files out.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// The size over which a file is refused if a reader names no other limit.
inline constexpr std::uint64_t kFileLimit = 1ULL << 31;

/// The whole file, which must not be compressed. Fails with `kIo` naming the file when it cannot be
/// read, is a directory, is over `limit` bytes, or fails `check_not_compressed`.
/// "-" reads standard input.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// As read_file, of any content. For readers that decompress it (harpe/command/input/input_file.h).
Result<std::string> read_bytes(const std::filesystem::path& path, std::uint64_t limit = kFileLimit);

/// Fails with `kIo` if `content` is compressed by gzip, zstd, xz or bzip2. The error names `path`
/// and the command that decompresses it.
Status check_not_compressed(const std::filesystem::path& path, std::string_view content);

/// As read_file, of a regular file alone, and without waiting for one to be opened: a pipe or a
/// device in its place is an error. For files that a running daemon reads again, and that others
/// may replace.
Result<std::string> read_regular_file(const std::filesystem::path& path,
                                      std::uint64_t limit = kFileLimit);

/// `digest_text` of what a regular file has in it; empty for anything else (standard input, a pipe:
/// what it gave once it does not give again) and where it cannot be read.
std::string file_digest(const std::filesystem::path& path);

/// Which file a path names, as it was written last: another one than before where this differs.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// All zero where there is no such file.
FileStamp file_stamp(const std::filesystem::path& path);

/// Writes `content` to a temporary name in the same directory, flushes it to the disk and renames
/// it over `path`: at any error (full disk, no permission) the temporary file is removed, `path`
/// stays as it was, and the error names it.
Status write_file(const std::filesystem::path& path, std::string_view content);

/// Fails as `write_file` would where a small file cannot be written now, and leaves nothing: before
/// long work whose result goes there. The disk may still fill up later.
Status check_writable(const std::filesystem::path& path);

/// The same for files in a directory, which may have to be made with its parents.
Status check_writable_directory(const std::filesystem::path& path);

/// Creates the directory (and its parents) if it is missing and checks that files can be written
/// into it.
Status ensure_directory(const std::filesystem::path& path);

}  // namespace harpe
