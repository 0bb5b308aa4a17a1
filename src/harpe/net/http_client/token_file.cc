#include "harpe/net/http_client/token_file.h"

#include <utility>

#include "harpe/base/text.h"

namespace harpe::net {

const std::string& TokenFile::current() {
  if (!path_.empty() && file_stamp(path_) != seen_) (void)read();
  return token_;
}

Status TokenFile::read() {
  if (path_.empty()) return ok_status();
  // Taken before the read, so that a change during the read causes another read.
  const FileStamp at = file_stamp(path_);
  const std::string text = HARPE_TRY(read_regular_file(path_, kLongest));
  const std::string token(trim(text));
  // Any other character would break the header that carries the token.
  for (const char c : token) {
    if (c > ' ' && c <= '~') continue;
    return Error::io(path_.string(), "does not contain a valid token");
  }
  if (token.empty()) return Error::io(path_.string(), "is empty");
  seen_ = at;
  token_ = token;
  return ok_status();
}

}  // namespace harpe::net
