#pragma once
/// \file
/// The files that a user gives to a command: plain, or compressed by gzip.
///
/// Only the rooms of commands stand on this room, and with it on zlib. `harpe-agent`, which runs
/// with privileges, `libharpe_client.so` and programs that link the library read plain files.

#include <cstdint>
#include <filesystem>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/result.h"

namespace harpe {

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

}  // namespace harpe
