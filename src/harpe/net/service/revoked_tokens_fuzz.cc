// Any file is refused, or defines the revoked tokens so that an additional line restores none of
// them.

#include <cstdlib>
#include <string>

#include "harpe/net/service/token_keys.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harpe;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<net::RevokedTokens> revoked = net::RevokedTokens::parse(text, "file");
  if (!revoked.ok()) return 0;
  const net::TokenClaims old{.subject = "a", .issued = 0},
      other{.subject = "b", .id = "x", .issued = 0};
  const Result<net::RevokedTokens> more =
      net::RevokedTokens::parse(text + "\nsubject a before 1970-01-01T00:00:01Z\nid x\n", "file");
  require(more.ok() && more->covers(old) && more->covers(other));
  const net::TokenClaims newer{.subject = "a", .issued = 1};
  require(revoked->covers(newer) == more->covers(newer));
  return 0;
}
