#include "harpe/command/command/kept_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"

namespace harpe::command {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Status write_text(const fs::path& at) {
  return write_file(at, "text");
}

class KeptResultTest : public testing::Test {
 protected:
  KeptResultTest() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
  }
  ~KeptResultTest() override {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }

  const TestDirectory temporary_, directory_;
  std::optional<std::string> before_;
};

TEST_F(KeptResultTest, IsWhereItShouldBeIfItCanBe) {
  const auto kept = write_or_keep(directory_ / "a.csv", write_text);
  ASSERT_TRUE(kept.ok());
  EXPECT_FALSE(kept->trouble);
  EXPECT_EQ(kept->at, directory_ / "a.csv");
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
}

TEST_F(KeptResultTest, OfAFullDiskIsInTheTemporaryFolder) {
  fs::create_symlink("/dev/full", directory_ / "a.csv");
  const auto kept = write_or_keep(directory_ / "a.csv", write_text);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->at.filename(), "a.csv");
  EXPECT_EQ(kept->at.parent_path().parent_path(), temporary_.path());
  EXPECT_EQ(*read_file(kept->at), "text");
  EXPECT_EQ(fs::status(kept->at.parent_path()).permissions(), fs::perms{0700});
  ASSERT_TRUE(kept->trouble);
  EXPECT_EQ(kept->trouble->code, ErrorCode::kIo);
  EXPECT_THAT(kept->trouble->text(), HasSubstr("a.csv: cannot write: No space left on device"));
  EXPECT_THAT(kept->trouble->text(), HasSubstr("kept as " + kept->at.string()));
}

TEST_F(KeptResultTest, GoesOnToThePlaceThatHasRoom) {
  std::vector<fs::path> tried;
  const auto kept = write_or_keep(directory_ / "out" / "", [&](const fs::path& at) -> Status {
    tried.push_back(at);
    return tried.size() < 3 ? Status(Error::io(at.string(), "full")) : write_file(at, "text");
  });
  ASSERT_TRUE(kept.ok());
  ASSERT_EQ(tried.size(), 3U);
  EXPECT_EQ(kept->at, tried.back());
  EXPECT_EQ(kept->at.filename(), "out");
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
  fs::remove_all(kept->at.parent_path());
}

TEST_F(KeptResultTest, ThatFitsNowhereIsTheErrorOfItsPlace) {
  const auto kept = write_or_keep(directory_ / "a", [&](const fs::path& at) -> Status {
    return Error::io(at.string(), "full");
  });
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().text(), (directory_ / "a").string() + ": full");
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
}

TEST_F(KeptResultTest, LetsTheCommandFailAfterItHasPrintedWhatItFound) {
  Console console = Console::of_process();
  console.json = true;
  Outcome outcome{.text = "found", .json = {}};
  keep_result(directory_ / "a", "text", console, outcome);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(console.warnings.empty());
  keep_result("/dev/full", "text", console, outcome);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.text, "found");
  ASSERT_EQ(console.warnings.size(), 1U);
  EXPECT_THAT(console.warnings[0], HasSubstr("kept as "));
}

}  // namespace
}  // namespace harpe::command
