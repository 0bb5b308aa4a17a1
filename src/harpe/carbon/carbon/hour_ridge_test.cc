#include "harpe/carbon/carbon/hour_ridge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {
namespace {

constexpr ForecastGrid kRidgeGrid{.slots_per_day = 24, .horizon = 24};

HourRidgeOptions small_ridge() {
  return {.name = "small",
          .lag_hours = {0, 1, 23},
          .weekly_profile = true,
          .bandwidth_hours = 2,
          .lambda = 0.1,
          .huber = 0};
}

/// Returns values with a daily swing, a random walk and noise.
std::vector<double> random_values(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  double walk = 0;
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    walk = 0.97 * walk + 0.05 * normal(random);
    const double angle = 2 * std::numbers::pi * static_cast<double>(i % 24) / 24;
    values.push_back(200 * std::exp(0.3 * std::sin(angle) + walk + 0.01 * normal(random)));
  }
  return values;
}

/// Solves a x = b by Gaussian elimination with pivots, which the forecaster does not use.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

TEST(HourRidge, SolvesItsNormalEquations) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const HourRidgeOptions options = small_ridge();
    const auto ridge = make_hour_ridge(options, kRidgeGrid);
    LogHistory history(24);
    for (const double grams : random_values(seed, 24 * 60 + seed)) {
      history.add(grams);
      ridge->observe(history);
    }
    std::vector<double> forecast(24);
    ASSERT_TRUE(ridge->forecast(history, forecast));

    RidgeFeatures features(options, kRidgeGrid, nullptr);
    const std::size_t p = features.count(), newest = history.size() - 1;
    const std::size_t first = features.first_step(), end = newest - kRidgeGrid.horizon + 1;
    const double days = static_cast<double>(end - first) / 24;
    const double bandwidth = 2 * std::sqrt(240 / days);
    for (const std::size_t ahead : {1U, 7U, 24U}) {
      std::vector<std::vector<double>> products(p, std::vector<double>(p, 0));
      std::vector<double> targets(p, 0), x(p);
      for (std::size_t i = first; i < end; ++i) {
        features.write(history, i, x);
        const double apart =
            std::abs(static_cast<double>(i % 24) - static_cast<double>(newest % 24));
        const double hours = std::min(apart, 24 - apart);
        const double age = static_cast<double>(end - 1 - i) / 24;
        const double kernel = std::exp(-0.5 * std::pow(hours / bandwidth, 2));
        const double weight = kernel < 0.01 ? 0 : kernel * std::exp2(-age / 730);
        const double target = history[i + ahead] - weekly_profile(history, i, ahead);
        for (std::size_t j = 0; j < p; ++j) {
          for (std::size_t k = 0; k < p; ++k) products[j][k] += weight * x[j] * x[k];
          targets[j] += weight * x[j] * target;
        }
      }
      for (std::size_t j = 0; j < p; ++j) products[j][j] += options.lambda;
      const std::vector<double> weights = solve(products, targets);
      features.write(history, newest, x);
      double expected = weekly_profile(history, newest, ahead);
      for (std::size_t j = 0; j < p; ++j) expected += x[j] * weights[j];
      EXPECT_NEAR(forecast[ahead - 1], expected, 1e-9) << ahead << " h ahead";
    }
  }
}

TEST(HourRidge, LearnsWhatTheSameHourCannotKnow) {
  const auto ridge = make_hour_ridge(narrow_ridge(), kRidgeGrid);
  const auto rule = make_same_hour();
  LogHistory history(24);
  const std::vector<double> values = random_values(5, 24 * 200);
  double by_ridge = 0, by_rule = 0;
  std::vector<double> ahead(24);
  for (std::size_t i = 0; i + 24 < values.size(); ++i) {
    history.add(values[i]);
    ridge->observe(history);
    if (i < 24 * 100 || !ridge->forecast(history, ahead)) continue;
    by_ridge += std::abs(ahead[5] - to_log(values[i + 6]));
    ASSERT_TRUE(rule->forecast(history, ahead));
    by_rule += std::abs(ahead[5] - to_log(values[i + 6]));
  }
  ASSERT_GT(by_rule, 0);
  EXPECT_LT(by_ridge, 0.8 * by_rule);
}

/// Returns a ridge's forecast at the end of history. The exogenous values are the intensities
/// themselves, including future ones; from step `changed` on they are replaced.
std::vector<double> with_exogenous(std::size_t known_ahead, std::size_t changed) {
  const std::vector<double> values = random_values(9, 24 * 80);
  const std::size_t now = 24 * 70;
  ExogenousSeries exogenous{.columns = {{.name = "wind", .values = values}},
                            .known_ahead = known_ahead};
  for (std::size_t i = changed; i < values.size(); ++i) exogenous.columns[0].values[i] = 7;
  const auto ridge = make_hour_ridge(narrow_ridge(), kRidgeGrid, &exogenous);
  LogHistory history(24);
  for (std::size_t i = 0; i < now; ++i) {
    history.add(values[i]);
    ridge->observe(history);
  }
  std::vector<double> ahead(24);
  EXPECT_TRUE(ridge->forecast(history, ahead));
  return ahead;
}

TEST(HourRidge, ReadsExogenousValuesNoFurtherThanTheyAreKnown) {
  const std::size_t newest = 24 * 70 - 1;
  for (const std::size_t known : {0U, 12U}) {
    EXPECT_EQ(with_exogenous(known, newest + known + 1), with_exogenous(known, newest + 500));
    EXPECT_NE(with_exogenous(known, newest + known), with_exogenous(known, newest + 500));
  }
}

TEST(HourRidge, LearnsLittleOfGaps) {
  const auto ridge = make_hour_ridge(narrow_ridge(), kRidgeGrid);
  LogHistory history(24);
  std::vector<double> ahead(24);
  const std::vector<double> values = random_values(4, 24 * 90);
  for (std::size_t i = 0; i < values.size(); ++i) {
    history.add(i % 5 == 0 || (i / 24) % 9 == 3 ? kNoValue : values[i]);
    ridge->observe(history);
  }
  ASSERT_TRUE(ridge->forecast(history, ahead));
  for (const double value : ahead) EXPECT_NEAR(value, to_log(200), 1.5);
}

}  // namespace
}  // namespace harpe::carbon
