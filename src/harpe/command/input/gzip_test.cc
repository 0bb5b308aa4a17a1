#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>

#include "harpe/command/input/gzip_testing.h"
#include "harpe/command/input/input_file.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kLimit = 1 << 24;

std::string error_of(std::string_view bytes, std::uint64_t limit = kLimit) {
  const Result<std::string> content = gunzip(bytes, "p.csv.gz", limit);
  return content.ok() ? std::string() : content.error().text();
}

/// Returns text with repetitions, so that all types of blocks occur.
std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text;
  while (text.size() < size) {
    const auto letter = static_cast<char>('a' + random() % 26);
    text.append(random() % 4 == 0 ? 1 + random() % 500 : 1, letter);
  }
  return text;
}

TEST(Gzip, GivesBackWhatWasCompressed) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::size_t size : {0UL, 1UL, 65'535UL, 65'536UL, 65'537UL, 1'000'000UL}) {
    const std::string text = random_text(random, size);
    for (const int level : {Z_NO_COMPRESSION, Z_BEST_SPEED, Z_BEST_COMPRESSION}) {
      const Result<std::string> content = gunzip(gzipped(text, level), "f", kLimit);
      ASSERT_TRUE(content.ok()) << content.error().text();
      EXPECT_EQ(*content, text) << size;
    }
  }
}

TEST(Gzip, ReadsAllMembers) {
  const std::string three = gzipped("stage,") + gzipped("") + gzipped("instruction\n");
  EXPECT_EQ(gunzip(three, "f", kLimit).value(), "stage,instruction\n");
}

TEST(Gzip, ThatEndsEarlyIsRefusedWhereverItEnds) {
  const std::string whole = gzipped("stage,instruction,frequency,time,energy\n") + gzipped("0\n");
  const std::size_t first = gzipped("stage,instruction,frequency,time,energy\n").size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size == first) continue;  // a whole member
    // One byte is not enough to recognize the second member.
    EXPECT_THAT(error_of(whole.substr(0, size)),
                HasSubstr(size == first + 1 ? "1 bytes after its gzip data" : "ends early"))
        << size;
  }
  EXPECT_EQ(error_of(whole), "");
}

TEST(Gzip, ThatIsDamagedIsRefusedWithTheReason) {
  const std::string whole = gzipped("stage,instruction,frequency,time,energy\n");
  std::string other_sum = whole;
  other_sum[whole.size() - 8] ^= 1;
  EXPECT_EQ(error_of(other_sum),
            "p.csv.gz: is damaged: its gzip data have an error (incorrect data check); copy it "
            "again");
  std::string other_method = whole;
  other_method[2] = 7;
  EXPECT_THAT(error_of(other_method), HasSubstr("(unknown compression method)"));
  // All bytes but the header, which has no checksum, and the last byte of the content, whose last
  // bits may be unused.
  for (std::size_t at = 10; at < whole.size(); ++at) {
    if (at == whole.size() - 9) continue;
    std::string damaged = whole;
    damaged[at] ^= 4;
    EXPECT_NE(error_of(damaged), "") << at;
  }
}

TEST(Gzip, FollowedByOtherBytesIsRefused) {
  EXPECT_EQ(error_of(gzipped("a") + "\nstage"),
            "p.csv.gz: has 6 bytes after its gzip data: copy or compress it again");
  EXPECT_THAT(error_of(gzipped("a") + std::string(512, '\0')), HasSubstr("512 bytes after"));
}

TEST(Gzip, OverTheLimitIsRefusedBeforeAllOfItIsDecompressed) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(error_of(gzipped(text), text.size()), "");
  EXPECT_EQ(error_of(gzipped(text), text.size() - 1),
            "p.csv.gz: is over the limit of 99999 bytes when decompressed (gzip)");
  EXPECT_THAT(error_of(gzipped("aaa") + gzipped("aaa"), 5), HasSubstr("over the limit of 5 bytes"));
  // The damage behind the limit is not reached.
  std::string bomb = gzipped(std::string(50'000'000, 'a'));
  bomb.resize(bomb.size() - 4);
  EXPECT_THAT(error_of(bomb), HasSubstr("over the limit"));
}

TEST(Gzip, IsKnownByItsFirstTwoBytes) {
  EXPECT_TRUE(is_gzip(gzipped("")));
  EXPECT_FALSE(is_gzip(""));
  EXPECT_FALSE(is_gzip("\x1f"));
  EXPECT_FALSE(is_gzip("stage"));
}

}  // namespace
}  // namespace harpe::command
