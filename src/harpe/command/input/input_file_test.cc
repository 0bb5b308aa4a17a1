#include "harpe/command/input/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/base/test_directory_testing.h"
#include "harpe/command/input/gzip_testing.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class InputFile : public ::testing::Test {
 protected:
  std::string read_back(std::string_view content, std::uint64_t limit = kFileLimit) {
    EXPECT_TRUE(write_file(path_, content).ok());
    const Result<std::string> text = read_input_file(path_, limit);
    return text.ok() ? *text : text.error().text();
  }

  TestDirectory directory_;
  fs::path path_ = directory_ / "profile.csv.gz";
};

TEST_F(InputFile, IsReadPlainOrCompressedWhateverItsName) {
  EXPECT_EQ(read_back("stage,instruction"), "stage,instruction");
  EXPECT_EQ(read_back(gzipped("stage,instruction")), "stage,instruction");
  EXPECT_EQ(read_back(""), "");
  path_ = directory_ / "profile.csv";
  EXPECT_EQ(read_back(gzipped("stage,instruction")), "stage,instruction");
}

TEST_F(InputFile, CompressedOtherwiseIsRefusedWithTheCommandThatHelps) {
  EXPECT_THAT(read_back("\x28\xb5\x2f\xfd"), HasSubstr("zstd: decompress it first (unzstd -k "));
  EXPECT_THAT(read_back("BZh9"), HasSubstr("bzip2: decompress it first (bunzip2 -k "));
  EXPECT_THAT(read_back(gzipped(gzipped("a"))), HasSubstr("gzip: decompress it first (gunzip -k "));
}

TEST_F(InputFile, KeepsToItsLimitCompressedAndNot) {
  const std::string text(10'000, 'a');
  EXPECT_EQ(read_back(gzipped(text), text.size()), text);
  EXPECT_THAT(read_back(gzipped(text), text.size() - 1),
              HasSubstr("profile.csv.gz: is over the limit of 9999 bytes when decompressed"));
  EXPECT_THAT(read_back(text, text.size() - 1), HasSubstr("is over the limit of 9999 bytes"));
}

TEST_F(InputFile, ThatIsDamagedOrMissingIsNamed) {
  EXPECT_THAT(read_back(gzipped("abc").substr(0, 15)), HasSubstr("profile.csv.gz: ends early"));
  EXPECT_THAT(read_input_file(directory_ / "no").error().text(), HasSubstr("No such file"));
}

TEST_F(InputFile, IsFoundUnderBothNamesAndThePlainOneIsPreferred) {
  const fs::path plain = directory_ / "summary_train.csv";
  EXPECT_EQ(plain_or_gz(plain), plain);
  ASSERT_TRUE(write_file(directory_ / "summary_train.csv.gz", gzipped("a")).ok());
  EXPECT_EQ(plain_or_gz(plain), directory_ / "summary_train.csv.gz");
  ASSERT_TRUE(write_file(plain, "a").ok());
  EXPECT_EQ(plain_or_gz(plain), plain);
}

TEST(WithoutGz, LeavesOtherNamesAsTheyAre) {
  EXPECT_EQ(without_gz("runs/gpt3.csv.gz"), "runs/gpt3.csv");
  EXPECT_EQ(without_gz("runs.gz/gpt3.csv"), "runs.gz/gpt3.csv");
  EXPECT_EQ(without_gz(".gz"), ".gz");
  EXPECT_EQ(without_gz(""), "");
}

}  // namespace
}  // namespace harpe::command
