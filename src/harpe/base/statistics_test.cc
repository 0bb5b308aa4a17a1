#include "harpe/base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
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
  EXPECT_NEAR(mean.error, 3.18245 * 1.290994 / 2, 1e-4);  // t (3 degrees) x deviation / sqrt(4)
}

TEST(Statistics, ValuesThatAreKnownBetterCountForMore) {
  const std::vector<double> alike{4, 1, 3, 2};
  for (const double error : {0.0, 0.5}) {
    const MeanWithError mean = mean_with_error(alike, std::vector<double>(4, error));
    EXPECT_NEAR(mean.mean, 2.5, 1e-12);
    EXPECT_NEAR(mean.error, std::hypot(mean_with_error(alike).error, error / 2), 1e-9);
  }
  const MeanWithError one =
      mean_with_error(std::vector{70.0, 100.0, 100.4}, std::vector{40., 2., 1.});
  EXPECT_NEAR(one.mean, 100.3, 0.1);
  // Values that scatter far beyond their errors receive nearly equal weights.
  const MeanWithError far = mean_with_error(std::vector{90.0, 110.0}, std::vector{1.0, 0.1});
  EXPECT_NEAR(far.mean, 100, 0.1);
  EXPECT_TRUE(std::isinf(mean_with_error(std::vector{3.0}, std::vector{1.0}).error));
  EXPECT_EQ(mean_with_error(std::vector{0.0, 0.0}, std::vector{0.0, 0.0}).mean, 0);
}

/// About 95 % of the intervals contain the mean, for values with different errors.
TEST(Statistics, TheIntervalOfAWeightedMeanHolds) {
  std::mt19937 random(3);
  int held = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> values, errors;
    for (const double sigma : {20.0, 1.0, 2.0, 0.5}) {
      values.push_back(std::normal_distribution<double>(100, sigma)(random));
      errors.push_back(1.96 * sigma);
    }
    const MeanWithError mean = mean_with_error(values, errors);
    held += std::abs(mean.mean - 100) <= mean.error ? 1 : 0;
  }
  EXPECT_GE(held, 0.95 * kRounds);
}

TEST(Statistics, StudentsQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_quantile(1), 12.706, 0.001);
  EXPECT_NEAR(student_quantile(5), 2.571, 0.005);
  EXPECT_NEAR(student_quantile(10), 2.228, 0.001);
  EXPECT_NEAR(student_quantile(100), 1.984, 0.001);
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
