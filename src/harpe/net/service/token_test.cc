#include "harpe/net/service/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "harpe/net/service/token_keys.h"

namespace harpe::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kTokenNow = 1'767'225'600;
constexpr const char* kSecret = "your-256-bit-secret-your-256-bit";

TEST(Token, IsReadBackAsItWasSigned) {
  const SigningKey key = *SigningKey::of(kSecret);
  const std::string token = key.sign({"alice", {"gpu-read", "cpu-read"}, kTokenNow + 60});
  const Result<TokenClaims> claims = key.verify(token, kTokenNow);
  ASSERT_TRUE(claims.ok()) << claims.error().text();
  EXPECT_EQ(claims->subject, "alice");
  EXPECT_THAT(claims->scopes, ElementsAre("gpu-read", "cpu-read"));
  EXPECT_EQ(claims->expires, kTokenNow + 60);
  EXPECT_EQ(key.verify(token, kTokenNow + 60).error().text(), "Token has expired.");
}

// Made by Python's hmac and base64 modules, with the header in the order of PyJWT.
TEST(Token, MadeByOtherCodeIsAccepted) {
  const Result<TokenClaims> claims =
      SigningKey::of("0123456789abcdef0123456789abcdef")
          ->verify(
              "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
              "eyJzdWIiOiJhbGljZSIsInNjb3BlcyI6WyJncHUtcmVhZCJdLCJleHAiOjQxMDI0NDQ4MDB9."
              "k6eUvRVq_CCuLcNWZFATLnnekDFVY_XsxpWC39SFR1A",
              kTokenNow);
  ASSERT_TRUE(claims.ok()) << claims.error().text();
  EXPECT_EQ(claims->subject, "alice");
  EXPECT_EQ(claims->expires, 4102444800);
}

TEST(Token, IsRefusedWithAnyCharacterChanged) {
  const SigningKey key = *SigningKey::of(kSecret);
  const std::string token = key.sign({"alice", {"gpu-read"}, {}});
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(key.verify(changed, kTokenNow).ok()) << i;
    EXPECT_FALSE(key.verify(token.substr(0, i), kTokenNow).ok()) << i;
  }
  EXPECT_FALSE(
      SigningKey::of("another-key-another-key-another-key")->verify(token, kTokenNow).ok());
}

TEST(Token, NeedsTheRightAlgorithmEvenWithARightSignature) {
  // The key signs whatever bytes it is given, so a token of its own can stand in for a forged one.
  const SigningKey key = *SigningKey::of(kSecret);
  for (const char* header : {R"({"alg":"none"})", R"({"alg":"RS256"})", "{}", "[]", "x"}) {
    const std::string unsigned_token =
        base64url(header) + "." + base64url(R"({"sub":"a","scopes":[]})") + ".";
    EXPECT_FALSE(key.verify(unsigned_token, kTokenNow).ok()) << header;
  }
}

// Made by Python's hmac and base64 modules: {"alg":"HS256","crit":["exp"],"exp":1}, signed right.
TEST(Token, OneWithCriticalExtensionsIsRefused) {
  const Result<TokenClaims> claims = SigningKey::of(kSecret)->verify(
      "eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiZXhwIl0sImV4cCI6MX0."
      "eyJzdWIiOiJhbGljZSIsInNjb3BlcyI6W119."
      "8ju3v37xA8wFibyqsMx4QQ9SPBNf5wNmEDyHbjnSHvI",
      kTokenNow);
  ASSERT_FALSE(claims.ok());
  EXPECT_THAT(claims.error().text(), HasSubstr("crit"));
}

TEST(Token, KeysOfFewBytesAreRefused) {
  EXPECT_THAT(SigningKey::of("short\n").error().text(), HasSubstr("at least 32 bytes"));
  EXPECT_TRUE(SigningKey::of(std::string(kSecret) + "\n").ok());
}

TEST(ForwardToken, NamesAClientToServersOfTheSameKeyForAWhile) {
  const auto own = *TokenKeys::of(kSecret), others = *TokenKeys::of(std::string(32, 'x'));
  const TokenKeys& key = *own;
  const TokenKeys& other = *others;
  const std::string token = forward_token(key, "address 10.0.0.9", kTokenNow);
  EXPECT_EQ(forwarded_client(key, token, kTokenNow), "address 10.0.0.9");
  EXPECT_EQ(forwarded_client(key, token, kTokenNow - 200), "address 10.0.0.9") << "clocks differ";
  EXPECT_FALSE(forwarded_client(key, token, kTokenNow + 301));
  EXPECT_FALSE(forwarded_client(other, token, kTokenNow));
  for (const char* forged : {"", "1", "address 10.0.0.9", "a.b.c"}) {
    EXPECT_FALSE(forwarded_client(key, forged, kTokenNow)) << forged;
  }
  // A user's token makes no server of its holder, and what servers show gives no user's rights.
  EXPECT_FALSE(
      forwarded_client(key, key.sign({.subject = "a", .scopes = {"job-write"}}), kTokenNow));
  EXPECT_THAT(key.verify(token, kTokenNow)->scopes, ElementsAre("harpe-forward"));
}

TEST(Base64Url, RoundTripsAnyBytesInOneWay) {
  std::mt19937 random(7);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(random() & 255);
    const std::string text = base64url(bytes);
    EXPECT_EQ(base64url_decoded(text), bytes);
    EXPECT_EQ(text.find_first_of("+/="), std::string::npos);
  }
  EXPECT_EQ(base64url("\xfb\xff"), "-_8");
  EXPECT_FALSE(base64url_decoded("-_9"));  // bits that would be lost
  EXPECT_FALSE(base64url_decoded("a"));
  EXPECT_FALSE(base64url_decoded("ab=="));
}

TEST(BearerToken, IsTakenOutOfItsHeader) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer  abc "), "abc");
  EXPECT_EQ(bearer_token("Basic abc"), "");
  EXPECT_EQ(bearer_token(""), "");
}

}  // namespace
}  // namespace harpe::net
