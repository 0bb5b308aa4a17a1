#include "harpe/carbon/carbon/conformal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace harpe::carbon {
namespace {

constexpr ForecastGrid kConformalGrid{.slots_per_day = 24, .horizon = 24};

/// Returns the share of values within their intervals, for one horizon, per 60 days.
std::vector<double> coverages(std::uint64_t seed, std::size_t ahead, auto error_of) {
  ConformalIntervals intervals(kConformalGrid);
  LogHistory history(24);
  std::mt19937_64 random(seed);
  const std::size_t days = 360;
  std::vector<double> lower_of(24 * days + 24, NAN), upper_of(24 * days + 24, NAN);
  std::vector<double> forecast(24, to_log(200)), lower(24), upper(24), shares;
  std::size_t within = 0, judged = 0;
  for (std::size_t i = 0; i < 24 * days; ++i) {
    history.add(from_log(to_log(200) + error_of(random, i)));
    if (!std::isnan(lower_of[i])) {
      ++judged;
      within += history[i] >= lower_of[i] && history[i] <= upper_of[i] ? 1U : 0U;
    }
    intervals.observe(history);
    intervals.issue(history, forecast, lower, upper);
    lower_of[i + ahead] = lower[ahead - 1];
    upper_of[i + ahead] = upper[ahead - 1];
    if ((i + 1) % (24 * 60) == 0) {
      shares.push_back(static_cast<double>(within) / static_cast<double>(judged));
      within = judged = 0;
    }
  }
  return shares;
}

double normal(std::mt19937_64& random) {
  return std::normal_distribution<double>()(random);
}

TEST(Conformal, CoversWhatItPromisesOfSkewedAndHourlyErrors) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const std::size_t ahead : {1U, 24U}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", ahead " + std::to_string(ahead));
      const auto shares = coverages(seed, ahead, [](auto& random, std::size_t i) {
        const double spread = i % 24 < 8 ? 0.02 : 0.2;
        return spread * (std::exp(normal(random)) - 1);
      });
      for (const double share : shares) EXPECT_NEAR(share, 0.8, 0.04);
    }
  }
}

TEST(Conformal, CoversAgainAfterErrorsBecomeAnother) {
  for (const std::uint64_t seed : {4, 5, 6}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto shares = coverages(seed, 12, [](auto& random, std::size_t i) {
      const bool later = i > 24 * 130;
      return (later ? 0.5 : 0.1) * normal(random) + (later ? 0.4 : 0);
    });
    for (const double share : shares) EXPECT_NEAR(share, 0.8, 0.04);
  }
}

TEST(Conformal, IsNarrowWhereErrorsAreSmall) {
  for (const std::uint64_t seed : {7, 8}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ConformalIntervals intervals(kConformalGrid);
    LogHistory history(24);
    std::mt19937_64 random(seed);
    std::vector<double> forecast(24, to_log(200)), lower(24), upper(24);
    for (std::size_t i = 0; i < 24 * 60; ++i) {
      history.add(from_log(to_log(200) + (i % 24 < 12 ? 0.01 : 0.2) * normal(random)));
      intervals.observe(history);
      intervals.issue(history, forecast, lower, upper);
    }
    // The newest value is in slot 23: 4 steps ahead is the quiet night, 16 the noisy afternoon.
    EXPECT_LT(3 * (upper[3] - lower[3]), upper[15] - lower[15]);
  }
}

TEST(Conformal, SaysNothingBeforeItHasErrors) {
  ConformalIntervals intervals(kConformalGrid);
  LogHistory history(24);
  std::vector<double> forecast(24, 5), lower(24), upper(24);
  for (int i = 0; i < 24; ++i) {
    history.add(200 + i);
    intervals.observe(history);
    intervals.issue(history, forecast, lower, upper);
    EXPECT_TRUE(std::isnan(lower[0]) && std::isnan(upper[23]));
  }
}

}  // namespace
}  // namespace harpe::carbon
