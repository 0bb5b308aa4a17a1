#include "harpe/http_client/token_file.h"

#include <fstream>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {

const std::string& TokenFile::current() {
  if (!path_.empty() && file_stamp(path_) != seen_) (void)read();
  return token_;
}

Status TokenFile::read() {
  if (path_.empty()) return ok_status();
  // Before the bytes: what is written while they are read is read again.
  const FileStamp at = file_stamp(path_);
  std::ifstream file(path_, std::ios::binary);
  std::string text(kLongest + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty() || text.size() > kLongest) {
    return Error::io(path_.string(), text.empty() ? "holds no token that can be read"
                                                  : "is too large to be a token");
  }
  const std::string token(trim(text));
  // Anything else would end the header that it goes into.
  for (const char c : token) {
    if (c > ' ' && c <= '~') continue;
    return Error::io(path_.string(), "holds something that is no token");
  }
  if (token.empty()) return Error::io(path_.string(), "is empty");
  seen_ = at;
  token_ = token;
  return ok_status();
}

}  // namespace harpe
