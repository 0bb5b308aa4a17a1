#pragma once
/// \file
/// Gzip data for tests.

#include <zlib.h>

#include <string>

#include "harpe/base/check.h"

namespace harpe::command {

/// Returns one gzip member with this content.
inline std::string gzipped(std::string text, int level = Z_DEFAULT_COMPRESSION) {
  constexpr int kWindowBits = 15 + 16, kMemory = 8;  // gzip's header; zlib's default
  z_stream stream = {};
  const int begun =
      deflateInit2(&stream, level, Z_DEFLATED, kWindowBits, kMemory, Z_DEFAULT_STRATEGY);
  HARPE_CHECK(begun == Z_OK, "zlib begins");
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  HARPE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "the bound is enough");
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

}  // namespace harpe::command
