#pragma once
/// \file
/// Tokens that identify a client which the kernel cannot identify (over TCP): JSON Web Tokens
/// signed with HMAC-SHA-256 (RFC 7519, "HS256"), in the form that zeusd issues and checks.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::net {

/// The claims of a token about its holder.
struct TokenClaims {
  std::string subject;                       ///< "alice"; policy rules name it under `tokens`
  std::vector<std::string> scopes = {};      ///< "gpu-control", "gpu-read", "cpu-read"
  std::optional<std::int64_t> expires = {};  ///< seconds since 1970; nullopt: never
  /// The only training job that it is valid for; nullopt: all.
  std::optional<std::string> job = {};
  std::optional<std::string> id = {};       ///< "jti": unique to this token, used to revoke it
  std::optional<std::int64_t> issued = {};  ///< "iat": seconds since 1970
};

/// A key for signing and checking tokens; a server holds `TokenKeys`. Thread-safe.
class SigningKey {
 public:
  static constexpr std::size_t kShortest = 32;  ///< bytes, as RFC 7518 3.2 requires

  /// Ignores white space at both ends of `secret`. Fails if the key has fewer than 32 bytes.
  static Result<SigningKey> of(std::string_view secret);
  std::string sign(const TokenClaims& claims) const;
  /// Returns true if this key made the signature. Does not check anything else.
  bool has_signed(std::string_view token) const;
  /// Returns the claims of a token if its signature is valid and it has not expired at `now`
  /// (seconds since 1970). Otherwise fails with the reason, which contains nothing of the token.
  Result<TokenClaims> verify(std::string_view token, std::int64_t now) const;

 private:
  explicit SigningKey(std::string secret) : secret_(std::move(secret)) {}
  std::string code_of(std::string_view signed_part) const;

  std::string secret_;
};

/// Returns a unique id for a token: 16 random bytes as base64url.
Result<std::string> new_token_id();

/// Returns the token in "Bearer <token>"; empty if the header has another form.
std::string_view bearer_token(std::string_view authorization);

/// Base64 with `-` and `_`, without `=` (RFC 4648 5).
std::string base64url(std::string_view bytes);
std::optional<std::string> base64url_decoded(std::string_view text);

/// Fails if other users than root and this process's user may read or write a secret file.
Status check_secret_file(const std::filesystem::path& path);

}  // namespace harpe::net
