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

// Signatures made by Python's hmac module, each by the key over the header and the claims.
TEST(Token, NeedsTheRightAlgorithmEvenWithARightSignature) {
  const SigningKey key = *SigningKey::of(kSecret);
  const auto verify = [&](const char* header, const std::string& signature) {
    const std::string token =
        base64url(header) + "." + base64url(R"({"sub":"a","scopes":[]})") + "." + signature;
    EXPECT_TRUE(signature.empty() || key.has_signed(token)) << header;
    return key.verify(token, kTokenNow).ok();
  };
  EXPECT_TRUE(verify(R"({"alg":"HS256"})", "eA6fyv7-LW1G_dYwcZ6zRW7Kq5XcS4RHNyxGGk_Ysqs"));
  EXPECT_FALSE(verify(R"({"alg":"none"})", "R1u-mOliHMXg1DC5UVPc1Jq_hUQ8qgJZ7ITOrIHY6Qo"));
  EXPECT_FALSE(verify(R"({"alg":"RS256"})", "L15iXMgoxZ0MNZLSl0sGGx8gA4R0l2IcU48_SLxstgs"));
  EXPECT_FALSE(verify(R"({"alg":"HS512"})", "sk-WKtKRS3tzxH3RWrVsBV1cIjPpjj6V_L8yeIz3zPo"));
  EXPECT_FALSE(verify("{}", "DhgA752gKWAwnx7I5mZezuJdWsS6spLzp7_vtsExIT8"));
  EXPECT_FALSE(verify("[]", "i2D5nfISkRqPDAhnNR3KY9hmdvVzmMTC32NzFBtqPSc"));
  EXPECT_FALSE(verify("x", "kFQZa6thMQrGE528Lu_Xh8l492J-sJBKGPVHJMtLYkw"));
  for (const char* header : {R"({"alg":"none"})", R"({"alg":"RS256"})", R"({"alg":"HS256"})"}) {
    EXPECT_FALSE(verify(header, "")) << header;
  }
}

// Made by Python's hmac and base64 modules: {"alg":"HS256","crit":["exp"],"exp":1}, validly signed.
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
  // A user's token does not make its holder a server, and a server's token gives no user's rights.
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
