#include "harpe/command/input/input_file.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "harpe/base/check.h"

namespace harpe::command {
namespace {

constexpr std::size_t kChunk = 1 << 16;
// The largest window, and gzip format only, not zlib format (zlib's manual, inflateInit2).
constexpr int kWindowBits = 15 + 16;

/// Owner of zlib's state.
class Inflater {
 public:
  Inflater() {
    HARPE_CHECK(inflateInit2(&stream_, kWindowBits) == Z_OK, "zlib has the memory it needs");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  /// Starts the next member.
  void restart() { inflateReset(&stream_); }

  /// Decompresses from the front of `bytes`, and removes the bytes used. Appends at most `kChunk`
  /// bytes to `content`. Returns zlib's return value.
  int step(std::string_view& bytes, std::string& content) {
    const std::size_t size = content.size();
    const auto given =
        static_cast<uInt>(std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
    content.resize(size + kChunk);
    // zlib does not write to its input, although its pointer is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = given;
    stream_.next_out = reinterpret_cast<Bytef*>(content.data() + size);
    stream_.avail_out = static_cast<uInt>(kChunk);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    content.resize(size + kChunk - stream_.avail_out);
    bytes.remove_prefix(given - stream_.avail_in);
    return result;
  }

  /// Returns the reason of the last failure, such as "invalid block type".
  std::string reason() const { return stream_.msg != nullptr ? stream_.msg : "invalid data"; }

 private:
  z_stream stream_ = {};
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

Result<std::string> gunzip(std::string_view bytes, const std::string& file, std::uint64_t limit) {
  Inflater inflater;
  std::string content;
  for (;;) {
    const int result = inflater.step(bytes, content);
    if (content.size() > limit) {
      return Error::io(file, "is over the limit of " + std::to_string(limit) +
                                 " bytes when decompressed (gzip)");
    }
    if (result == Z_STREAM_END) {
      if (bytes.empty()) return content;
      if (!is_gzip(bytes)) {
        return Error::io(file, "has " + std::to_string(bytes.size()) +
                                   " bytes after its gzip data: copy or compress it again");
      }
      inflater.restart();
    } else if (result == Z_BUF_ERROR) {
      return Error::io(file, "ends early: its gzip data are not complete; copy it again");
    } else if (result == Z_MEM_ERROR) {
      return Error::io(file, "cannot be decompressed: not enough memory");
    } else if (result != Z_OK) {
      return Error::io(file, "is damaged: its gzip data have an error (" + inflater.reason() +
                                 "); copy it again");
    }
  }
}

namespace fs = std::filesystem;

Result<std::string> read_input_file(const fs::path& path, std::uint64_t limit) {
  std::string content = HARPE_TRY(read_bytes(path, limit));
  if (is_gzip(content)) content = HARPE_TRY(gunzip(content, path.string(), limit));
  HARPE_TRY(check_not_compressed(path, content));
  return content;
}

fs::path without_gz(const fs::path& path) {
  return path.extension() == ".gz" ? fs::path(path).replace_extension() : path;
}

fs::path plain_or_gz(const fs::path& path) {
  std::error_code ignored;
  fs::path compressed = path;
  compressed += ".gz";
  return !fs::exists(path, ignored) && fs::exists(compressed, ignored) ? compressed : path;
}

}  // namespace harpe::command
