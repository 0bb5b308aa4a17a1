#pragma once
/// \file
/// Tokens that name a client which the kernel cannot name (over TCP): JSON Web Tokens signed with
/// HMAC-SHA-256 (RFC 7519, "HS256"), as zeusd issues and checks them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::net {

/// What a token says of its holder.
struct TokenClaims {
  std::string subject;                       ///< "alice"; policy rules name it under `tokens`
  std::vector<std::string> scopes = {};      ///< "gpu-control", "gpu-read", "cpu-read"
  std::optional<std::int64_t> expires = {};  ///< seconds since 1970; none: never
  std::optional<std::string> job = {};       ///< the one training job that it is for; none: all
  std::optional<std::string> id = {};        ///< "jti": one token's alone, by which it is revoked
  std::optional<std::int64_t> issued = {};   ///< "iat": seconds since 1970
};

/// One key for signing and checking tokens; a server holds `TokenKeys`. Safe to use from several
/// threads.
class SigningKey {
 public:
  static constexpr std::size_t kShortest = 32;  ///< bytes, as RFC 7518 3.2 asks

  /// White space at both ends of `secret` does not count. Refuses keys under 32 bytes.
  static Result<SigningKey> of(std::string_view secret);
  std::string sign(const TokenClaims& claims) const;
  /// Whether the signature is this key's; nothing else of the token is looked at.
  bool has_signed(std::string_view token) const;
  /// The claims of a token with a right signature that has not expired at `now` (seconds since
  /// 1970). The error says why not, without a word of the token.
  Result<TokenClaims> verify(std::string_view token, std::int64_t now) const;

 private:
  explicit SigningKey(std::string secret) : secret_(std::move(secret)) {}
  std::string code_of(std::string_view signed_part) const;

  std::string secret_;
};

/// An id for a token that no other has: 16 random bytes as base64url.
Result<std::string> new_token_id();

/// The token in "Bearer <token>"; empty when the header holds something else.
std::string_view bearer_token(std::string_view authorization);

/// Base64 with `-` and `_`, without `=` (RFC 4648 5).
std::string base64url(std::string_view bytes);
std::optional<std::string> base64url_decoded(std::string_view text);

/// Refuses a file with a secret that others than root and this process's user may read or write.
Status check_secret_file(const std::filesystem::path& path);

}  // namespace harpe::net
