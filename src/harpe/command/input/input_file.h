#pragma once
/// \file
/// Reader of files that a user gives to a command: plain, or compressed by gzip.
///
/// Only the rooms of commands depend on this room, and through it on zlib. `harpe-agent`, which
/// runs with privileges, `libharpe_client.so` and programs with the library read only plain files.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/file.h"
#include "harpe/base/result.h"

namespace harpe::command {

/// Returns true if `bytes` begin like gzip data.
bool is_gzip(std::string_view bytes);

/// Returns the decompressed content of gzip data, of all members if several are concatenated. Fails
/// with `kIo` naming `file` if the data are damaged, end early, are followed by other bytes, or
/// decompress to more than `limit` bytes. Decompresses no more than `limit` bytes and a buffer, so
/// a small file cannot fill the memory.
Result<std::string> gunzip(std::string_view bytes, const std::string& file, std::uint64_t limit);

/// Returns the whole file, decompressed if its content (not its name) is gzip. `limit` applies to
/// the file and to its decompressed size. Fails like `read_file`, also for files compressed by
/// other programs, and like `gunzip`. "-" reads standard input.
Result<std::string> read_input_file(const std::filesystem::path& path,
                                    std::uint64_t limit = kFileLimit);

/// Returns the name without ".gz": `gpt3.csv` for `gpt3.csv.gz`.
std::filesystem::path without_gz(const std::filesystem::path& path);

/// Returns the path with ".gz" added if only that file exists, otherwise the path itself. For files
/// whose names are fixed by a command.
std::filesystem::path plain_or_gz(const std::filesystem::path& path);

}  // namespace harpe::command
