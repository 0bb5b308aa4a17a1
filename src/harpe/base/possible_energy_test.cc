#include "harpe/base/possible_energy.h"

#include <gtest/gtest.h>

#include <limits>

namespace harpe {
namespace {

TEST(PossibleEnergy, IsFromNothingToWhatTheDevicesCanDraw) {
  const auto is_possible = [](double energy, double error) {
    return why_impossible({energy}, {error}, {2}, {500}).empty();
  };
  EXPECT_TRUE(is_possible(0, 0));
  EXPECT_TRUE(is_possible(1000, 0));
  EXPECT_TRUE(is_possible(-3, 1)) << "nothing, within its error";
  EXPECT_TRUE(is_possible(1300, 100));
  EXPECT_TRUE(is_possible(std::numeric_limits<double>::quiet_NaN(), 0)) << "it was not measured";
  EXPECT_FALSE(is_possible(-3.1, 1));
  EXPECT_FALSE(is_possible(1301, 100));
  EXPECT_FALSE(is_possible(std::numeric_limits<double>::infinity(), 1));
  EXPECT_FALSE(is_possible(-std::numeric_limits<double>::infinity(), 1));
}

TEST(PossibleEnergy, TheReasonIsForPeople) {
  EXPECT_EQ(why_impossible({1e15}, {0}, {1}, kMostGpuPower),
            "1e+15 J in 1 s is more than 5000 W, the highest possible power");
  EXPECT_EQ(why_impossible({-4.3e6}, {10}, {0.5}, kMostGpuPower),
            "-4300000 J in 0.5 s is negative");
}

}  // namespace
}  // namespace harpe
