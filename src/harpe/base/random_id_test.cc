#include "harpe/base/random_id.h"

#include <gtest/gtest.h>

#include <set>

namespace harpe {
namespace {

TEST(RandomId, HasTwoHexadecimalDigitsAByteAndDoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(random_id(8));
  EXPECT_EQ(ids.size(), 1000U);
  std::set<char> digits;
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), 16U);
    digits.insert(id.begin(), id.end());
  }
  EXPECT_EQ(std::string(digits.begin(), digits.end()), "0123456789abcdef");
  EXPECT_EQ(random_id().size(), 32U);
}

}  // namespace
}  // namespace harpe
