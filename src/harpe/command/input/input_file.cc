#include "harpe/command/input/input_file.h"

#include <system_error>

#include "harpe/command/input/gzip.h"

namespace harpe {
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

}  // namespace harpe
