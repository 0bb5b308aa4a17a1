#include "harpe/base/ranges_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace harpe {
namespace {

TEST(RangesText, JoinsNumbersThatFollowEachOther) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text(std::vector<int>{3}), "3");
  EXPECT_EQ(ranges_text(std::vector<int>{1, 2, 5}), "1-2, 5");
  EXPECT_EQ(ranges_text(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 12}), "0-7, 12");
  EXPECT_EQ(ranges_text(std::vector<int>{0, 2, 4}), "0, 2, 4");
}

}  // namespace
}  // namespace harpe
