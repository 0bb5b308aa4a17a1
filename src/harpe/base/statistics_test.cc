#include "harpe/base/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace harpe {
namespace {

TEST(Statistics, MeansAndQuantiles) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_EQ(lower_median(values), 2);
  EXPECT_EQ(lower_median({3, 1, 2}), 2);
  EXPECT_EQ(lower_median({}), 0);
  const MeanWithError mean = mean_with_error(values);
  EXPECT_DOUBLE_EQ(mean.mean, 2.5);
  EXPECT_NEAR(mean.error, 3.18245 * 1.290994 / 2, 1e-4);  // t of 3 degrees x deviation / sqrt(4)
}

TEST(Statistics, ARunningMedianForgetsAndIsNotMovedByFewFarOff) {
  RunningMedian median;
  EXPECT_DOUBLE_EQ(median.add(1), 1);
  EXPECT_DOUBLE_EQ(median.add(100), 50.5);
  for (int i = 0; i < 5; ++i) median.add(1);
  EXPECT_DOUBLE_EQ(median.add(1000), 1);
  double now = 0;
  for (int i = 0; i < 8; ++i) now = median.add(2);
  EXPECT_DOUBLE_EQ(now, 2);
}

}  // namespace
}  // namespace harpe
