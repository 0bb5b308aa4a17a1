#include "harpe/net/service/revoked_tokens.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

/// "2026-11-22T10:00:00Z"
std::optional<std::int64_t> utc_time(std::string_view text) {
  std::tm time{};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != 0) return std::nullopt;
  return ::timegm(&time);
}

/// What follows `word` and blanks; none: the line begins otherwise.
std::optional<std::string_view> after_word(std::string_view line, std::string_view word) {
  if (!line.starts_with(word)) return std::nullopt;
  const std::string_view rest = line.substr(word.size());
  if (rest.empty() || (rest.front() != ' ' && rest.front() != '\t')) return std::nullopt;
  return trim(rest);
}

}  // namespace

Result<RevokedTokens> RevokedTokens::parse(std::string_view text, const std::string& file) {
  RevokedTokens revoked;
  Diagnostics diagnostics(file);
  const auto error = [&](int line, std::string what) { diagnostics.add(line, 0, std::move(what)); };
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (const auto id = after_word(line, "id")) {
      if (id->find_first_of(" \t") != std::string_view::npos) {
        error(number, "an id has no blanks");
      } else {
        revoked.ids_.emplace(*id);
      }
      continue;
    }
    const auto subject = after_word(line, "subject");
    if (!subject) {
      error(number, "begins with neither \"id\" nor \"subject\"");
      continue;
    }
    std::string_view name = *subject;
    std::optional<std::int64_t> before;
    if (const std::size_t at = name.rfind(" before "); at != std::string_view::npos) {
      before = utc_time(trim(name.substr(at + 8)));
      if (!before) {
        error(number, "the time after \"before\" must be as 2026-11-22T10:00:00Z");
        continue;
      }
      name = trim(name.substr(0, at));
    }
    const auto [known, is_new] = revoked.subjects_.emplace(name, before);
    // Of two lines for one subject the one that takes more back counts.
    if (!is_new && known->second) {
      known->second = before ? std::max(known->second, before) : std::nullopt;
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return revoked;
}

bool RevokedTokens::covers(const TokenClaims& claims) const {
  if (claims.id && ids_.contains(*claims.id)) return true;
  const auto subject = subjects_.find(claims.subject);
  if (subject == subjects_.end()) return false;
  return !subject->second || !claims.issued || *claims.issued < *subject->second;
}

}  // namespace harpe::net
