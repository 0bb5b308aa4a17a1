#pragma once
/// \file
/// The keys of a server's tokens and the revoked tokens, as currently listed in files.
///
/// A key file has one key per line. The first key signs; tokens of all keys are accepted. To change
/// a key without refusing any token: add the new key as the last line on all servers, move it to
/// the first line, and remove the old key once its last token has expired.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/net/service/token.h"

namespace harpe::net {

/// Tokens that are refused before they expire. A file lists them, one on each line:
///
///     # the token of last week's trainer
///     id 2b6XDq0xkJq1n1aV8sZ0Pw
///     subject trainer before 2026-11-22T10:00:00Z
///     subject mallory
///
/// `id` names one token by its claim "jti". `subject` names all tokens of a subject, which is the
/// rest of the line. If the line ends with `before` and a time in UTC, it names those that were
/// issued before that time (claim "iat"), and those without that claim.
/// A lookup is O(log entries).
class RevokedTokens {
 public:
  static constexpr std::size_t kLongest = 16 * 1024 * 1024;  ///< bytes of the file

  /// Fails with one error for each invalid line.
  /// \param file  named in errors
  static Result<RevokedTokens> parse(std::string_view text, const std::string& file);

  bool covers(const TokenClaims& claims) const;
  std::size_t size() const { return ids_.size() + subjects_.size(); }

 private:
  std::set<std::string, std::less<>> ids_;
  /// Time before which revoked tokens were issued, in seconds since 1970; nullopt: all tokens.
  std::map<std::string, std::optional<std::int64_t>, std::less<>> subjects_;
};

struct TokenFiles {
  std::filesystem::path keys;          ///< of mode 600; one key of 32 bytes or more per line
  std::filesystem::path revoked = {};  ///< see `RevokedTokens`; not writable by others; empty: none
};

/// Thread-safe.
class TokenKeys {
 public:
  static constexpr std::size_t kMost = 16;  ///< keys

  /// \param secrets  in the format of a key file
  static Result<std::shared_ptr<TokenKeys>> of(std::string_view secrets);
  /// Returns null if no key file is named.
  static Result<std::shared_ptr<TokenKeys>> read(TokenFiles files);

  /// Reads the files that have changed. On an error nothing changes, and the files are read again
  /// only when they change again. Returns true if a file was read.
  Result<bool> reload();

  std::string sign(const TokenClaims& claims) const { return content()->keys.front().sign(claims); }
  /// Verifies like `SigningKey::verify`, and fails for revoked tokens.
  Result<TokenClaims> verify(std::string_view token, std::int64_t now) const;

 private:
  struct Content {
    std::vector<SigningKey> keys;  ///< one at least
    RevokedTokens revoked;
  };
  TokenKeys() = default;
  static Result<std::vector<SigningKey>> parse_keys(std::string_view text);
  static Result<Content> read_content(const TokenFiles& files);
  std::shared_ptr<const Content> content() const;

  TokenFiles files_;
  mutable Mutex mutex_;
  std::shared_ptr<const Content> content_ HARPE_GUARDED_BY(mutex_);
  FileStamp keys_seen_ HARPE_GUARDED_BY(mutex_), revoked_seen_ HARPE_GUARDED_BY(mutex_);
};

/// Returns the token that one server shows another when it forwards a request. It proves that the
/// server has the signing keys and names the client, so that limits are that client's and no client
/// can pass for a server. Valid for a few minutes, because clocks of servers may differ by as much.
/// \param client  as `HttpRequest::client`
/// \param now     seconds since 1970
std::string forward_token(const TokenKeys& keys, const std::string& client, std::int64_t now);

/// Returns the client of such a token; nullopt if it is another token, of other keys, or too old.
std::optional<std::string> forwarded_client(const TokenKeys& keys, std::string_view token,
                                            std::int64_t now);

}  // namespace harpe::net
