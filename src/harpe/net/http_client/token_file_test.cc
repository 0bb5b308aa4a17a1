#include "harpe/net/http_client/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace harpe::net {
namespace {

class Tokens : public ::testing::Test {
 protected:
  ~Tokens() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  /// Replaces the file in one step, so that no reader sees half of it.
  void replace(const std::string& text) const {
    std::ofstream(path_ + ".new") << text;
    std::filesystem::rename(path_ + ".new", path_);
  }

  std::string path_ = ::testing::TempDir() + "harpe_token_" + std::to_string(::getpid());
};

TEST_F(Tokens, AreReadAgainWhenTheFileChangesInWhateverWay) {
  TokenFile token("given", path_);
  EXPECT_EQ(token.current(), "given") << "there is no file yet";
  write("first\n");
  EXPECT_EQ(token.current(), "first");
  replace("second");
  EXPECT_EQ(token.current(), "second");
  write("the third\n");
  EXPECT_EQ(token.current(), "second") << "two words are no token";
  write("third");
  EXPECT_EQ(token.current(), "third");
  std::filesystem::remove(path_);
  EXPECT_EQ(token.current(), "third");
}

TEST_F(Tokens, AreReadAgainWhenAskedForEvenWhereTheFileLooksAsBefore) {
  write("one");
  TokenFile token({}, path_);
  EXPECT_EQ(token.current(), "one");
  const auto time = std::filesystem::last_write_time(path_);
  write("two");
  std::filesystem::last_write_time(path_, time);
  EXPECT_EQ(token.current(), "one") << "the same size, time and file";
  EXPECT_TRUE(token.read().ok());
  EXPECT_EQ(token.current(), "two");
}

/// A rank reads its token before each request, and must not block there.
TEST_F(Tokens, OfAPipeAreNotWaitedFor) {
  write("first");
  TokenFile token({}, path_);
  EXPECT_EQ(token.current(), "first");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(token.current(), "first");
  EXPECT_EQ(token.read().error().text(), path_ + ": is not a regular file");
}

TEST_F(Tokens, AreNothingThatWouldBreakAHeader) {
  for (const std::string bad : {"a\r\nX-Other: b", "a b", "\xff", "", "  \n"}) {
    write(bad);
    TokenFile token("given", path_);
    EXPECT_EQ(token.current(), "given") << bad;
    EXPECT_FALSE(token.read().ok());
  }
  write(std::string(TokenFile::kLongest + 1, 'x'));
  EXPECT_FALSE(TokenFile({}, path_).read().ok());
}

TEST_F(Tokens, WithoutAFileStayWhatTheyAre) {
  TokenFile token("given", {});
  EXPECT_TRUE(token.read().ok());
  EXPECT_EQ(token.current(), "given");
}

}  // namespace
}  // namespace harpe::net
