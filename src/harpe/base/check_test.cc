#include "harpe/base/check.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace harpe {
namespace {

TEST(Check, LetsWhatHoldsPassAndEvaluatesItOnce) {
  int evaluated = 0;
  HARPE_CHECK(++evaluated == 1, "counts");
  EXPECT_EQ(evaluated, 1);
}

TEST(Check, IsOneStatement) {
  bool other = false;
  if (std::getenv("HARPE_NO_SUCH_VARIABLE") != nullptr)
    HARPE_CHECK(true, "not reached");
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(CheckDeathTest, EndsTheProgramSayingWhereAndWhatWasBroken) {
  const int leases = 2;
  EXPECT_DEATH(HARPE_CHECK(leases <= 1, "a GPU has one lease"),
               "check_test\\.cc:[0-9]+: broken invariant: a GPU has one lease \\(leases <= 1\\)");
}

}  // namespace
}  // namespace harpe
