#include "harpe/net/service/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"

namespace harpe::net {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kLongestToken = 8192;

Error refused(std::string why) {
  return Error::of(ErrorCode::kNoPermission, std::move(why));
}

/// Returns a time claim in whole seconds; the claim can have a fraction.
std::optional<std::int64_t> seconds_claim(const JsonValue& value) {
  if (value.type != JsonValue::Type::kNumber) return std::nullopt;
  if (value.is_integer) return value.integer;
  if (!(value.number > -9e15 && value.number < 9e15)) return std::nullopt;
  return static_cast<std::int64_t>(value.number);
}

Result<TokenClaims> read_claims(std::string_view text, std::int64_t now) {
  const Result<JsonValue> claims = parse_json(text, "token");
  if (!claims.ok() || claims->type != JsonValue::Type::kObject) {
    return refused("The token's claims are not a JSON object.");
  }
  TokenClaims read;
  const JsonValue* subject = claims->find("sub");
  if (subject == nullptr || subject->type != JsonValue::Type::kString || subject->string.empty()) {
    return refused("The token names no subject.");
  }
  read.subject = subject->string;
  const JsonValue* scopes = claims->find("scopes");
  if (scopes == nullptr || scopes->type != JsonValue::Type::kArray) {
    return refused("The token has no list of scopes.");
  }
  for (const JsonValue& scope : scopes->items) {
    if (scope.type != JsonValue::Type::kString) return refused("A scope of the token is not text.");
    read.scopes.push_back(scope.string);
  }
  if (const JsonValue* expires = claims->find("exp");
      expires != nullptr && expires->type != JsonValue::Type::kNull) {
    read.expires = seconds_claim(*expires);
    if (!read.expires) return refused("The token's expiry is not a valid time.");
    if (*read.expires <= now) return refused("Token has expired.");
  }
  if (const JsonValue* job = claims->find("job");
      job != nullptr && job->type != JsonValue::Type::kNull) {
    if (job->type != JsonValue::Type::kString) return refused("The token's job is not text.");
    read.job = job->string;
  }
  if (const JsonValue* id = claims->find("jti"); id != nullptr) {
    if (id->type != JsonValue::Type::kString) return refused("The token's id is not text.");
    read.id = id->string;
  }
  if (const JsonValue* issued = claims->find("iat"); issued != nullptr) {
    read.issued = seconds_claim(*issued);
    if (!read.issued) return refused("The token's time of issue is not a valid time.");
  }
  if (const JsonValue* from = claims->find("nbf"); from != nullptr) {
    const auto begins = seconds_claim(*from);
    if (!begins || *begins > now) return refused("The token is not valid yet.");
  }
  return read;
}

}  // namespace

std::string base64url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) text += kAlphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kAlphabet[bits << (6 - held) & 63];
  return text;
}

std::optional<std::string> base64url_decoded(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 255);
  }
  // Each content has only one text, so the remaining bits must be zero.
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

Result<std::string> new_token_id() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Error::of(ErrorCode::kUnavailable, "no random numbers are available for a token's id");
  }
  return base64url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return {};
  return trim(authorization.substr(kScheme.size()));
}

Status check_secret_file(const std::filesystem::path& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return Error::io(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return Error::io(path, "is not a regular file");
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    return Error::of(ErrorCode::kNoPermission,
                     path.string() + " belongs to user " + std::to_string(found.st_uid) +
                         "; it must belong to root or to this process's own user");
  }
  if ((found.st_mode & 077) != 0) {
    return Error::of(
        ErrorCode::kNoPermission,
        path.string() + " may be read or written by others; run: chmod 600 " + path.string());
  }
  return ok_status();
}

Result<SigningKey> SigningKey::of(std::string_view secret) {
  const std::string_view key = trim(secret);
  if (key.size() < kShortest) {
    return Error::invalid("a signing key needs at least " + std::to_string(kShortest) +
                          " bytes, this one has " + std::to_string(key.size()) +
                          "; make one with: openssl rand -hex 32");
  }
  return SigningKey(std::string(key));
}

std::string SigningKey::code_of(std::string_view signed_part) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
       reinterpret_cast<const unsigned char*>(signed_part.data()), signed_part.size(), code.data(),
       &size);
  return {reinterpret_cast<const char*>(code.data()), size};
}

std::string SigningKey::sign(const TokenClaims& claims) const {
  nlohmann::ordered_json body;
  body["sub"] = claims.subject;
  body["scopes"] = claims.scopes;
  if (claims.expires) body["exp"] = *claims.expires;
  if (claims.issued) body["iat"] = *claims.issued;
  if (claims.id) body["jti"] = *claims.id;
  if (claims.job) body["job"] = *claims.job;
  std::string token =
      base64url(R"({"typ":"JWT","alg":"HS256"})") + "." + base64url(json_line(body));
  return token + "." + base64url(code_of(token));
}

bool SigningKey::has_signed(std::string_view token) const {
  const std::size_t last = token.rfind('.');
  if (token.size() > kLongestToken || last == std::string_view::npos) return false;
  const auto code = base64url_decoded(token.substr(last + 1));
  const std::string right = code_of(token.substr(0, last));
  return code && code->size() == right.size() &&
         CRYPTO_memcmp(code->data(), right.data(), right.size()) == 0;
}

Result<TokenClaims> SigningKey::verify(std::string_view token, std::int64_t now) const {
  if (token.size() > kLongestToken) return refused("The token is too long.");
  const std::size_t first = token.find('.');
  const std::size_t last = token.rfind('.');
  if (first == std::string_view::npos || first == last) return refused("This is not a token.");
  const auto header = base64url_decoded(token.substr(0, first));
  const auto claims = base64url_decoded(token.substr(first + 1, last - first - 1));
  const auto code = base64url_decoded(token.substr(last + 1));
  if (!header || !claims || !code) return refused("The token is not valid base64url.");
  // Checks the signature first: a token with a wrong signature is not parsed.
  if (!has_signed(token)) return refused("The token's signature is wrong.");
  const Result<JsonValue> head = parse_json(*header, "token");
  const JsonValue* algorithm = head.ok() ? head->find("alg") : nullptr;
  if (algorithm == nullptr || algorithm->string != "HS256") {
    return refused("The token is not signed with HS256.");
  }
  // RFC 7515, 4.1.11: a recipient must refuse critical extensions that it does not understand.
  if (head->find("crit") != nullptr) {
    return refused("The token requires extensions (crit), and none is supported.");
  }
  return read_claims(*claims, now);
}

}  // namespace harpe::net
