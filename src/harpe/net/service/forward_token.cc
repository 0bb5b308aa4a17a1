#include "harpe/net/service/forward_token.h"

#include <algorithm>

namespace harpe {
namespace {

/// No route asks for it, and tokens of users are not issued with it.
constexpr const char* kScope = "harpe-forward";
constexpr std::int64_t kGood = 300;  // s

}  // namespace

std::string forward_token(const TokenKeys& keys, const std::string& client, std::int64_t now) {
  return keys.sign({.subject = client, .scopes = {kScope}, .expires = now + kGood});
}

std::optional<std::string> forwarded_client(const TokenKeys& keys, std::string_view token,
                                            std::int64_t now) {
  Result<TokenClaims> claims = keys.verify(token, now);
  if (!claims.ok() || std::ranges::find(claims->scopes, kScope) == claims->scopes.end()) {
    return std::nullopt;
  }
  return std::move(claims->subject);
}

}  // namespace harpe
