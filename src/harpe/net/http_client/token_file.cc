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
  // Before the bytes: what is written while they are read is read again.
  const FileStamp at = file_stamp(path_);
  const std::string text = HARPE_TRY(read_regular_file(path_, kLongest));
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

}  // namespace harpe::net
