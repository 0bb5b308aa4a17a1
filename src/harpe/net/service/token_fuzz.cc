// Tokens from outside: a token is accepted if and only if the key signed it, and then with the same
// claims.

#include <cstdlib>

#include "harpe/net/service/token.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harpe;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const net::SigningKey kKey = *net::SigningKey::of("0123456789abcdef0123456789abcdef");
  static const net::SigningKey kOther = *net::SigningKey::of("another-key-another-key-another-");
  const auto accepted = kKey.verify(text, 0);
  if (accepted.ok()) require(!kOther.verify(text, 0).ok());

  const std::string_view bearer = net::bearer_token(text);
  require(bearer.size() <= text.size());
  if (const auto bytes = net::base64url_decoded(text)) require(net::base64url(*bytes) == text);
  // Any text can be a subject if the token does not get too long. Bytes that are not UTF-8 are
  // replaced.
  if (!text.empty() && size < 256) {
    const auto own = kKey.verify(kKey.sign({text, {text}, 1}), 0);
    require(own.ok() && own->scopes.size() == 1 && own->scopes[0] == own->subject);
  }
  return 0;
}
