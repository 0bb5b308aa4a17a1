#include "harpe/node/agent/trusted_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "harpe/node/agent/controller_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TrustedFile : public ::testing::Test {
 protected:
  fs::path written(const char* name, const std::string& text = "text") const {
    std::ofstream(directory_.path() / name) << text;
    fs::permissions(directory_.path() / name, fs::perms{0644});
    return directory_.path() / name;
  }
  TestDirectory directory_;
};

TEST_F(TrustedFile, OfThisUserIsOpenedAndRead) {
  const fs::path file = written("a", std::string(100000, 'x'));
  EXPECT_THAT(why_not_trusted(file), IsEmpty());
  const auto text = read_trusted(file, 100000);
  ASSERT_TRUE(text.ok()) << text.error().text();
  EXPECT_EQ(*text, std::string(100000, 'x'));
  EXPECT_EQ(read_trusted(file, 99999).error().code, ErrorCode::kIo);
  ASSERT_TRUE(open_trusted(directory_.path() / "new", O_WRONLY | O_CREAT, 0640).ok());
  struct stat made{};
  ASSERT_EQ(::stat((directory_.path() / "new").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0137U, 0U);
}

// Opening a pipe blocks until another process opens its other end.
TEST_F(TrustedFile, APipeInItsPlaceIsRefusedAtOnce) {
  const fs::path pipe = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const int flags : {O_RDONLY, O_WRONLY | O_APPEND, O_RDWR}) {
    const auto opened = open_trusted(pipe, flags);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().text(), HasSubstr("is not a regular file"));
  }
  EXPECT_FALSE(open_trusted("/dev/null", O_RDONLY).ok());
  EXPECT_FALSE(open_trusted(directory_.path(), O_RDONLY).ok());
}

TEST_F(TrustedFile, ALinkIsNotFollowed) {
  fs::create_symlink(written("a"), directory_.path() / "link");
  const auto opened = open_trusted(directory_.path() / "link", O_RDONLY);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().text(), HasSubstr("is a symbolic link"));
}

TEST_F(TrustedFile, WhatOthersCanWriteIsRefused) {
  const fs::path file = written("a");
  for (const unsigned mode : {0666U, 0620U}) {
    fs::permissions(file, fs::perms{mode});
    EXPECT_EQ(open_trusted(file, O_RDONLY).error().code, ErrorCode::kNoPermission);
    EXPECT_THAT(why_not_trusted(file), ElementsAre(HasSubstr("can be written by")));
  }
  fs::permissions(file, fs::perms{0600});
  for (const unsigned mode : {0777U, 0770U}) {
    fs::permissions(directory_.path(), fs::perms{mode});
    EXPECT_EQ(open_trusted(file, O_RDONLY).error().code, ErrorCode::kNoPermission);
  }
  fs::permissions(directory_.path(), fs::perms{01777});
  EXPECT_TRUE(open_trusted(file, O_RDONLY).ok()) << "only owners may rename there";
}

TEST_F(TrustedFile, ADirectoryFurtherUpMayBelongToAGroupOnlyWhereThatIsAllowed) {
  fs::create_directories(directory_.path() / "log" / "harpe");
  fs::permissions(directory_.path() / "log" / "harpe", fs::perms{0750});
  fs::permissions(directory_.path() / "log", fs::perms{0775});
  const fs::path file = written("log/harpe/a");
  EXPECT_TRUE(open_trusted(file, O_RDONLY).ok());
  EXPECT_THAT(why_not_trusted(file, true), IsEmpty());
  EXPECT_THAT(why_not_trusted(file), ElementsAre(HasSubstr("log can be written by its group")));
  fs::permissions(directory_.path() / "log", fs::perms{0777});
  EXPECT_FALSE(open_trusted(file, O_RDONLY).ok());
}

TEST_F(TrustedFile, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  constexpr uid_t kOther = 12001;
  const fs::path file = written("a");
  ASSERT_EQ(::chown(file.c_str(), kOther, kOther), 0);
  const auto opened = open_trusted(file, O_WRONLY | O_APPEND | O_CREAT);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(
      opened.error().text(),
      HasSubstr("belongs to user 12001, who could change it; use one that belongs to root"));
  // Another user's link in the path could be changed at any time.
  fs::create_directory(directory_.path() / "real");
  fs::create_directory_symlink("real", directory_.path() / "way");
  written("real/a");
  EXPECT_TRUE(open_trusted(directory_.path() / "way" / "a", O_RDONLY).ok());
  ASSERT_EQ(::lchown((directory_.path() / "way").c_str(), kOther, kOther), 0);
  EXPECT_FALSE(open_trusted(directory_.path() / "way" / "a", O_RDONLY).ok());
}

}  // namespace
}  // namespace harpe::node
