#include "harpe/net/service/token_keys.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

/// Parses "2026-11-22T10:00:00Z".
std::optional<std::int64_t> utc_time(std::string_view text) {
  std::tm time{};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != 0) return std::nullopt;
  return ::timegm(&time);
}

/// Returns the text after `word` and blanks; nullopt if the line begins otherwise.
std::optional<std::string_view> after_word(std::string_view line, std::string_view word) {
  if (!line.starts_with(word)) return std::nullopt;
  const std::string_view rest = line.substr(word.size());
  if (rest.empty() || (rest.front() != ' ' && rest.front() != '\t')) return std::nullopt;
  return trim(rest);
}

Error in_file(Error error, const std::filesystem::path& path) {
  for (Diagnostic& diagnostic : error.diagnostics) diagnostic.file = path.string();
  return error;
}

/// Checks who can write the file, because it decides whose tokens are refused.
Status check_revoked_file(const std::filesystem::path& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return ok_status();  // reading it reports why
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    return Error::of(ErrorCode::kNoPermission,
                     path.string() + " must belong to root or to this process's own user");
  }
  if ((found.st_mode & 022) != 0) {
    return Error::of(ErrorCode::kNoPermission,
                     path.string() + " may be written by others; run: chmod 644 " + path.string());
  }
  return ok_status();
}

/// The scope of these tokens. No route requires it, and users get no token with it.
constexpr const char* kForwardScope = "harpe-forward";
constexpr std::int64_t kForwardLasts = 300;  // s

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
        error(number, "an id must not contain blanks");
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
        error(number, "the time after \"before\" must have the form 2026-11-22T10:00:00Z");
        continue;
      }
      name = trim(name.substr(0, at));
    }
    const auto [known, is_new] = revoked.subjects_.emplace(name, before);
    // If a subject has two lines, the line that revokes more tokens counts.
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

Result<std::vector<SigningKey>> TokenKeys::parse_keys(std::string_view text) {
  std::vector<SigningKey> keys;
  text = trim(text);
  do {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() && !text.empty()) continue;
    SigningKey key = HARPE_TRY(SigningKey::of(line));
    if (keys.size() == kMost) {
      return Error::invalid("there are more than " + std::to_string(kMost) + " keys");
    }
    keys.push_back(std::move(key));
  } while (!text.empty());
  return keys;
}

Result<TokenKeys::Content> TokenKeys::read_content(const TokenFiles& files) {
  HARPE_TRY(check_secret_file(files.keys));
  const std::string text = HARPE_TRY(read_regular_file(files.keys, 64 * 1024));
  Result<std::vector<SigningKey>> keys = parse_keys(text);
  if (!keys.ok()) return in_file(keys.error(), files.keys);
  Content content{.keys = *std::move(keys), .revoked = {}};
  if (files.revoked.empty()) return content;
  HARPE_TRY(check_revoked_file(files.revoked));
  const std::string lines = HARPE_TRY(read_regular_file(files.revoked, RevokedTokens::kLongest));
  content.revoked = HARPE_TRY(RevokedTokens::parse(lines, files.revoked.string()));
  return content;
}

Result<std::shared_ptr<TokenKeys>> TokenKeys::of(std::string_view secrets) {
  std::vector<SigningKey> keys = HARPE_TRY(parse_keys(secrets));
  std::shared_ptr<TokenKeys> made(new TokenKeys);
  const MutexLock lock(made->mutex_);
  made->content_ = std::make_shared<const Content>(Content{.keys = std::move(keys), .revoked = {}});
  return made;
}

Result<std::shared_ptr<TokenKeys>> TokenKeys::read(TokenFiles files) {
  if (files.keys.empty()) return std::shared_ptr<TokenKeys>();
  std::shared_ptr<TokenKeys> made(new TokenKeys);
  made->files_ = std::move(files);
  HARPE_TRY(made->reload());
  return made;
}

Result<bool> TokenKeys::reload() {
  const MutexLock lock(mutex_);
  if (files_.keys.empty()) return false;
  // Taken before the read, so that a change during the read causes another read.
  const FileStamp keys = file_stamp(files_.keys);
  const FileStamp revoked = files_.revoked.empty() ? FileStamp() : file_stamp(files_.revoked);
  if (content_ != nullptr && keys == keys_seen_ && revoked == revoked_seen_) return false;
  keys_seen_ = keys;
  revoked_seen_ = revoked;
  Content content = HARPE_TRY(read_content(files_));
  content_ = std::make_shared<const Content>(std::move(content));
  return true;
}

std::shared_ptr<const TokenKeys::Content> TokenKeys::content() const {
  const MutexLock lock(mutex_);
  return content_;
}

Result<TokenClaims> TokenKeys::verify(std::string_view token, std::int64_t now) const {
  const auto all = content();
  const auto signer =
      std::ranges::find_if(all->keys, [&](const SigningKey& key) { return key.has_signed(token); });
  Result<TokenClaims> claims =
      (signer == all->keys.end() ? all->keys.front() : *signer).verify(token, now);
  if (claims.ok() && all->revoked.covers(*claims)) {
    return Error::of(ErrorCode::kNoPermission, "The token has been revoked.");
  }
  return claims;
}

std::string forward_token(const TokenKeys& keys, const std::string& client, std::int64_t now) {
  return keys.sign({.subject = client, .scopes = {kForwardScope}, .expires = now + kForwardLasts});
}

std::optional<std::string> forwarded_client(const TokenKeys& keys, std::string_view token,
                                            std::int64_t now) {
  Result<TokenClaims> claims = keys.verify(token, now);
  if (!claims.ok() || std::ranges::find(claims->scopes, kForwardScope) == claims->scopes.end()) {
    return std::nullopt;
  }
  return std::move(claims->subject);
}

}  // namespace harpe::net
