#include "harpe/net/service/token_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "harpe/base/test_directory_testing.h"

namespace harpe::net {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNow = 1'795'341'600;
const std::string kOld = "an-old-key-an-old-key-an-old-key-";
const std::string kNew = "a-new-key-a-new-key-a-new-key-a-n";

class TokenKeysTest : public ::testing::Test {
 protected:
  TokenKeysTest() {
    files_ = {.keys = folder_ / "keys", .revoked = folder_ / "revoked"};
    write_keys(kOld + "\n");
    write(files_.revoked, "");
  }

  /// Writes a new file and renames it, as tools that replace secrets do.
  static void write(const std::filesystem::path& path, const std::string& text, int mode = 0600) {
    const std::string beside = path.string() + ".new";
    std::ofstream(beside) << text;
    ::chmod(beside.c_str(), static_cast<mode_t>(mode));
    std::filesystem::rename(beside, path);
  }
  void write_keys(const std::string& text, int mode = 0600) { write(files_.keys, text, mode); }
  static std::string token_of(const std::string& key,
                              const TokenClaims& claims = {.subject = "a"}) {
    return SigningKey::of(key)->sign(claims);
  }

  const TestDirectory folder_;
  TokenFiles files_;
};

TEST_F(TokenKeysTest, AKeyIsChangedWithoutAMomentInWhichATokenIsRefused) {
  const auto keys = *TokenKeys::read(files_);
  const auto accepts = [&](const std::string& key) {
    return keys->verify(token_of(key), kNow).ok();
  };
  EXPECT_TRUE(accepts(kOld));
  EXPECT_FALSE(accepts(kNew));
  EXPECT_FALSE(*keys->reload());
  write_keys(kOld + "\n" + kNew + "\n");
  EXPECT_FALSE(accepts(kNew)) << "it has not been read";
  EXPECT_TRUE(*keys->reload());
  EXPECT_TRUE(accepts(kOld) && accepts(kNew));
  EXPECT_TRUE(SigningKey::of(kOld)->has_signed(keys->sign({.subject = "a"})));
  write_keys(kNew + "\r\n\n" + kOld);
  EXPECT_TRUE(*keys->reload());
  EXPECT_TRUE(accepts(kOld) && accepts(kNew));
  EXPECT_TRUE(SigningKey::of(kNew)->has_signed(keys->sign({.subject = "a"})));
  write_keys(kNew);
  EXPECT_TRUE(*keys->reload());
  EXPECT_FALSE(accepts(kOld));
  EXPECT_TRUE(accepts(kNew));
}

TEST_F(TokenKeysTest, WhereTheFilesCannotBeUsedAllIsAsBefore) {
  const auto keys = *TokenKeys::read(files_);
  const auto refuses = [&](const std::string& why) {
    const Result<bool> reloaded = keys->reload();
    EXPECT_THAT(reloaded.ok() ? "" : reloaded.error().text(), HasSubstr(why));
    EXPECT_TRUE(keys->verify(token_of(kOld), kNow).ok()) << why;
    EXPECT_FALSE(keys->verify(token_of(kNew), kNow).ok()) << why;
    EXPECT_TRUE(keys->reload().ok()) << "it is said once";
  };
  write_keys(kNew + "\nshort\n");
  refuses("at least 32 bytes");
  write_keys(kNew, 0640);
  refuses("chmod 600");
  write_keys("");
  refuses("at least 32 bytes");
  std::filesystem::remove(files_.keys);
  refuses("keys");
  write_keys(kNew);
  write(files_.revoked, "subject b before noon\n");
  refuses("revoked:1: ");
  write(files_.revoked, "subject b\n", 0666);
  refuses("chmod 644");
  write(files_.revoked, "", 0644);
  EXPECT_TRUE(*keys->reload());
  EXPECT_TRUE(keys->verify(token_of(kNew), kNow).ok());
}

/// Reading a pipe would block the calling thread until something is written into it.
TEST_F(TokenKeysTest, APipeInPlaceOfAFileIsRefusedAtOnce) {
  const auto keys = *TokenKeys::read(files_);
  std::filesystem::remove(files_.revoked);
  ASSERT_EQ(::mkfifo(files_.revoked.c_str(), 0600), 0);
  EXPECT_THAT(keys->reload().error().text(), HasSubstr("revoked: is not a regular file"));
  EXPECT_TRUE(keys->verify(token_of(kOld), kNow).ok());
}

TEST_F(TokenKeysTest, RevokedTokensAreRefusedOnceTheFileSaysSo) {
  const auto keys = *TokenKeys::read(files_);
  const std::string one = keys->sign({.subject = "a", .id = *new_token_id()});
  const std::string id = *keys->verify(one, kNow)->id;
  const std::string other = keys->sign({.subject = "a", .id = *new_token_id()});
  write(files_.revoked, "id " + id + "\n");
  EXPECT_TRUE(*keys->reload());
  EXPECT_EQ(keys->verify(one, kNow).error().text(), "The token has been revoked.");
  EXPECT_TRUE(keys->verify(other, kNow).ok());
}

TEST_F(TokenKeysTest, AnExpiredTokenOfAnyKeyIsSaidToHaveExpired) {
  const auto keys = *TokenKeys::of(kNew + "\n" + kOld);
  for (const std::string& key : {kNew, kOld}) {
    const auto claims = keys->verify(token_of(key, {.subject = "a", .expires = kNow}), kNow);
    EXPECT_EQ(claims.error().text(), "Token has expired.");
  }
}

TEST_F(TokenKeysTest, KeysThatOthersMayReadOrThatAreTooManyAreRefused) {
  write_keys(kOld, 0640);
  EXPECT_THAT(TokenKeys::read(files_).error().text(), HasSubstr("chmod 600"));
  std::filesystem::remove(files_.keys);
  EXPECT_EQ(TokenKeys::read(files_).error().code, ErrorCode::kIo);
  std::string many;
  for (int i = 0; i < 17; ++i) many += kOld + "\n";
  EXPECT_THAT(TokenKeys::of(many).error().text(), HasSubstr("more than 16"));
}

}  // namespace
}  // namespace harpe::net
