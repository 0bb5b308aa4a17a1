#pragma once
/// \file
/// Decompression of gzip data (RFC 1952).

#include <cstdint>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// True if `bytes` begin as gzip data does.
bool is_gzip(std::string_view bytes);

/// Returns the decompressed content of gzip data: of all members, if several are concatenated.
/// Fails with `kIo` naming `file` if the data are damaged, end early, are followed by other bytes,
/// or decompress to more than `limit` bytes. No more than `limit` bytes and a buffer are
/// decompressed before that is known: a small file cannot fill the memory.
Result<std::string> gunzip(std::string_view bytes, const std::string& file, std::uint64_t limit);

}  // namespace harpe
