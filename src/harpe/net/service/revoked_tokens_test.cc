#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/net/service/token_keys.h"

namespace harpe::net {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kTen = 1'795'341'600;  // 2026-11-22T10:00:00Z

RevokedTokens parsed(std::string_view text) {
  Result<RevokedTokens> revoked = RevokedTokens::parse(text, "revoked");
  EXPECT_TRUE(revoked.ok()) << revoked.error().text();
  return revoked.ok() ? *revoked : RevokedTokens();
}

TEST(RevokedTokens, AreThoseOfAnIdOrASubject) {
  const RevokedTokens revoked = parsed(
      "# gone\n\n  id abc\r\nsubject mallory\nsubject two words before 2026-11-22T10:00:00Z");
  EXPECT_EQ(revoked.size(), 3U);
  EXPECT_TRUE(revoked.covers({.subject = "a", .id = "abc"}));
  EXPECT_FALSE(revoked.covers({.subject = "a", .id = "abd"}));
  EXPECT_FALSE(revoked.covers({.subject = "abc"}));
  EXPECT_TRUE(revoked.covers({.subject = "mallory", .issued = kTen + 1}));
  EXPECT_TRUE(revoked.covers({.subject = "two words", .issued = kTen - 1}));
  EXPECT_FALSE(revoked.covers({.subject = "two words", .issued = kTen}));
  EXPECT_TRUE(revoked.covers({.subject = "two words"})) << "it does not say when it was issued";
}

TEST(RevokedTokens, OfTwoLinesForASubjectTheWiderCounts) {
  const std::string early = "subject a before 2026-11-22T09:00:00Z\n";
  const std::string late = "subject a before 2026-11-22T10:00:00Z\n";
  for (const std::string& text : {early + late, late + early}) {
    EXPECT_TRUE(parsed(text).covers({.subject = "a", .issued = kTen - 1})) << text;
    EXPECT_FALSE(parsed(text).covers({.subject = "a", .issued = kTen})) << text;
  }
  for (const std::string& text : {early + "subject a", "subject a\n" + late}) {
    EXPECT_TRUE(parsed(text).covers({.subject = "a", .issued = kTen})) << text;
  }
}

TEST(RevokedTokens, ALineThatIsNoneOfThemRefusesTheFile) {
  for (const char* wrong : {"abc", "id", "idabc", "id a b", "subject", "token abc",
                            "subject a before noon", "subject a before 2026-11-22T10:00:00"}) {
    const auto revoked = RevokedTokens::parse("id a\n" + std::string(wrong), "revoked");
    ASSERT_FALSE(revoked.ok()) << wrong;
    EXPECT_THAT(revoked.error().text(), HasSubstr("revoked:2: ")) << wrong;
  }
}

}  // namespace
}  // namespace harpe::net
