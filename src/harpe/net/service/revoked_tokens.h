#pragma once
/// \file
/// Tokens that are refused before they expire, as a file of lines says:
///
///     # what the trainer of last week had
///     id 2b6XDq0xkJq1n1aV8sZ0Pw
///     subject trainer before 2026-11-22T10:00:00Z
///     subject mallory
///
/// `id` is one token's (its claim "jti"); `subject` is the rest of its line but for `before` and a
/// time in UTC: without it, all tokens of that subject, else those issued before (claim "iat") and
/// those that do not say when.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/net/service/token.h"

namespace harpe::net {

/// Looking up is O(log entries).
class RevokedTokens {
 public:
  static constexpr std::size_t kLongest = 16 * 1024 * 1024;  ///< bytes of the file

  /// Fails with an error for each line that is none of these; \param file  named in errors
  static Result<RevokedTokens> parse(std::string_view text, const std::string& file);

  bool covers(const TokenClaims& claims) const;
  std::size_t size() const { return ids_.size() + subjects_.size(); }

 private:
  std::set<std::string, std::less<>> ids_;
  /// Issued before, in seconds since 1970; none: all.
  std::map<std::string, std::optional<std::int64_t>, std::less<>> subjects_;
};

}  // namespace harpe::net
