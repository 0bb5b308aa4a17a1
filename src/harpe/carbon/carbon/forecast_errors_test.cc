#include <gtest/gtest.h>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {
namespace {

TEST(ForecastErrors, AreRelativeButForAFewGrams) {
  EXPECT_DOUBLE_EQ(with_error(200, 330, 300), 220);
  EXPECT_DOUBLE_EQ(with_error(200, 300, 300), 200);
  // Marginal intensities pass through 0 and below.
  EXPECT_NEAR(with_error(200, 5, 5), 200, 1e-9);
  EXPECT_NEAR(with_error(3, -3, 3), -3, 1e-9);
  EXPECT_GT(with_error(0, 10, 5), 0);
}

TEST(ForecastErrors, OfManyAreTakenFromAllTime) {
  EXPECT_TRUE(taken_of(0).empty());
  EXPECT_EQ(taken_of(3), (std::vector<std::size_t>{0, 1, 2}));
  const auto taken = taken_of(1000);
  ASSERT_EQ(taken.size(), kMostOutlooks);
  for (std::size_t i = 1; i < taken.size(); ++i) EXPECT_EQ(taken[i] - taken[i - 1], 5U);
  EXPECT_LT(taken_of(kErrorDays).back(), kErrorDays);
}

}  // namespace
}  // namespace harpe::carbon
