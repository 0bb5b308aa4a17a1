#pragma once
/// \file
/// The one seam to the file system: whole files in, whole files out.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// The whole file. Fails with `kIo` naming the file when it cannot be read, is a directory, or is
/// over `limit` bytes.
/// "-" reads standard input.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit = 1ULL << 31);

/// Writes `content` to a temporary name in the same directory, flushes it to the disk and renames
/// it over `path`: at any fault (full disk, no permission) the temporary file is removed, `path`
/// stays as it was, and the error names it.
Status write_file(const std::filesystem::path& path, std::string_view content);

/// Creates the directory (and its parents) if it is missing and checks that files can be written
/// into it.
Status ensure_directory(const std::filesystem::path& path);

}  // namespace harpe
