#pragma once
/// \file
/// The files that a user gives to a command: plain, or compressed by gzip.
///
/// Only the rooms of commands stand on this room, and with it on zlib. `harpe-agent`, which runs
/// with privileges, `libharpe_client.so` and programs that link the library read plain files.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/file.h"
#include "harpe/base/result.h"

namespace harpe::command {

/// True if `bytes` begin as gzip data does.
bool is_gzip(std::string_view bytes);

/// Returns the decompressed content of gzip data: of all members, if several are concatenated.
/// Fails with `kIo` naming `file` if the data are damaged, end early, are followed by other bytes,
/// or decompress to more than `limit` bytes. No more than `limit` bytes and a buffer are
/// decompressed before that is known: a small file cannot fill the memory.
Result<std::string> gunzip(std::string_view bytes, const std::string& file, std::uint64_t limit);

/// Returns the whole file, decompressed if it is compressed by gzip, which its content tells and
/// not its name. `limit` holds for the file and for what it decompresses to. Fails as `read_file`
/// does, which includes files compressed by other programs, and as `gunzip` does.
/// "-" reads standard input.
Result<std::string> read_input_file(const std::filesystem::path& path,
                                    std::uint64_t limit = kFileLimit);

/// Returns the name without ".gz": `gpt3.csv` for `gpt3.csv.gz`.
std::filesystem::path without_gz(const std::filesystem::path& path);

/// Returns the path with ".gz" added if there is only a file of that name, else the path itself.
/// For files whose names a command knows.
std::filesystem::path plain_or_gz(const std::filesystem::path& path);

}  // namespace harpe::command
