#include "harpe/zeus/batch_size/metric_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harpe/base/hashed_random.h"

namespace harpe::zeus {
namespace {

constexpr double kMetricNan = std::numeric_limits<double>::quiet_NaN();

MetricCurve curve_of(int epochs, const std::function<double(int)>& metric) {
  MetricCurve curve;
  for (int epoch = 1; epoch <= epochs; ++epoch) curve.add(epoch, metric(epoch));
  return curve;
}

/// Returns a saturating curve with noise, determined by the seed.
MetricCurve random_curve(std::uint64_t seed, int epochs) {
  const double limit = uniform(mixed(seed, 1, 0)), gain = 0.1 + uniform(mixed(seed, 2, 0));
  const double scale = 1 + 20 * uniform(mixed(seed, 3, 0));
  const double noise = 0.02 * uniform(mixed(seed, 4, 0));
  return curve_of(epochs, [&](int epoch) {
    return limit - gain * std::exp(-epoch / scale) +
           noise * normal(mixed(seed, 5, static_cast<std::uint64_t>(epoch)));
  });
}

double chance(const MetricCurve& curve, const MetricTarget& target, double jump = 0) {
  return chance_to_reach(curve, target, jump).value_or(-1);
}

TEST(MetricCurve, SaysNothingOfFewNumbers) {
  const MetricTarget target{.metric = 1, .higher_is_better = true, .last_epoch = 50};
  const MetricCurve three = curve_of(3, [](int) { return 0.1; });
  EXPECT_EQ(chance_to_reach(three, target, 0.5), std::nullopt);
  EXPECT_NE(chance_to_reach(curve_of(4, [](int) { return 0.1; }), target, 0.5), std::nullopt);
  const MetricCurve gaps = curve_of(9, [](int epoch) { return epoch % 3 == 0 ? 0.1 : kMetricNan; });
  EXPECT_EQ(chance_to_reach(gaps, target, 0.5), std::nullopt);
  EXPECT_EQ(chance_to_reach({}, target, 0.5), std::nullopt);
}

TEST(MetricCurve, SeparatesWhatSaturatesBelowFromWhatStillRises) {
  const MetricTarget target{.metric = 0.9, .higher_is_better = true, .last_epoch = 100};
  const auto saturating = [](double limit) {
    return curve_of(20, [limit](int epoch) { return limit - 0.6 * std::exp(-epoch / 6.0); });
  };
  EXPECT_LT(chance(saturating(0.70), target), 0.01);
  EXPECT_GT(chance(saturating(0.95), target), 0.9);
  const MetricCurve power =
      curve_of(20, [](int epoch) { return 0.95 - 0.6 / std::sqrt(epoch); });  // 0.90 at epoch 144
  EXPECT_GT(chance(power, target), 0.02);
  EXPECT_LT(chance(power, target), 0.98);
}

TEST(MetricCurve, IsZeroWithoutEpochsAndOneOnceReached) {
  const MetricCurve curve = curve_of(10, [](int epoch) { return 0.1 * epoch; });
  EXPECT_EQ(chance(curve, {.metric = 2, .higher_is_better = true, .last_epoch = 10}, 0.5), 0);
  EXPECT_EQ(chance(curve, {.metric = 0.9, .higher_is_better = true, .last_epoch = 20}), 1);
}

TEST(MetricCurve, ScatterOfSingleEpochsMayReachWhatTheirMeanDoesNot) {
  const MetricTarget target{.metric = 0.5, .higher_is_better = true, .last_epoch = 60};
  const auto at = [](double noise) {
    return curve_of(30, [noise](int epoch) {
      return 0.48 + noise * normal(mixed(3, 0, static_cast<std::uint64_t>(epoch))) -
             (epoch == 1 ? 0.4 : 0);
    });
  };
  EXPECT_LT(chance(at(0.0005), target), 0.01);
  EXPECT_GT(chance(at(0.007), target), 0.05);
}

TEST(MetricCurve, DoesNotDependOnScaleShiftOrDirection) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const MetricCurve curve = random_curve(seed, 6 + static_cast<int>(seed));
    const double target = *curve.best_until(100, true) + 0.2 * uniform(mixed(seed, 9, 0)) + 1e-3;
    const MetricTarget wanted{.metric = target, .higher_is_better = true, .last_epoch = 90};
    const double before = chance(curve, wanted, 0.2);
    for (const auto& [scale, shift] : {std::pair(1000.0, -7.0), {1e-4, 3e-3}, {-5.0, 100.0}}) {
      MetricCurve other;
      for (const MetricPoint& point : curve.points()) {
        other.add(point.epoch, scale * *point.metric + shift);
      }
      const MetricTarget same{.metric = scale * target + shift,
                              .higher_is_better = scale > 0,
                              .last_epoch = wanted.last_epoch};
      EXPECT_NEAR(chance(other, same, 0.2), before, 1e-6);
    }
  }
}

// Ensembles are not exactly monotone: the shapes and their weights change a little.
TEST(MetricCurve, IsLikelierForANearerTargetMoreEpochsAndJumps) {
  constexpr double kSlack = 0.03;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const MetricCurve curve = random_curve(seed, 5 + static_cast<int>(seed % 30));
    const double best = *curve.best_until(100, true);
    double before = 1;
    for (const double gap : {0.001, 0.01, 0.03, 0.1, 0.3, 1.0}) {
      const MetricTarget target{
          .metric = best + gap, .higher_is_better = true, .last_epoch = curve.newest_epoch() + 30};
      const double now = chance(curve, target);
      EXPECT_LE(now, before + kSlack) << gap;
      EXPECT_GE(chance(curve, target, 0.3), now);
      before = now;
    }
    before = 0;
    for (const int more : {1, 3, 10, 30, 100, 1000}) {
      const MetricTarget target{.metric = best + 0.02,
                                .higher_is_better = true,
                                .last_epoch = curve.newest_epoch() + more};
      const double now = chance(curve, target, 0.1);
      EXPECT_GE(now, before - kSlack) << more;
      before = now;
    }
  }
}

TEST(MetricCurve, IsAProbabilityWhateverTheNumbers) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    auto draw = [seed, count = 0ULL]() mutable { return mixed(seed, 7, count++); };
    MetricCurve curve;
    int epoch = 0;
    const auto points = draw() % 200;
    for (std::uint64_t i = 0; i < points; ++i) {
      epoch += 1 + static_cast<int>(draw() % (seed % 3 == 0 ? 1000 : 2));
      const double kinds[] = {0.0, kMetricNan, 1e-310, -1e18, 1e18, normal(draw()), 0.5};
      curve.add(epoch, kinds[draw() % (2 + seed % 6)]);
    }
    const MetricTarget target{.metric = seed % 5 == 0 ? 1e18 : normal(draw()),
                              .higher_is_better = seed % 2 == 0,
                              .last_epoch = epoch + static_cast<int>(draw() % 2'000'000'000)};
    const auto found = chance_to_reach(curve, target, uniform(draw()));
    if (!found) continue;
    EXPECT_TRUE(*found >= 0 && *found <= 1) << *found;
  }
}

TEST(MetricCurve, ThinsOutOlderPointsOfALongTraining) {
  MetricCurve curve = curve_of(10'000, [](int epoch) { return 1 - 1.0 / epoch; });
  EXPECT_LE(curve.points().size(), MetricCurve::kMostPoints);
  EXPECT_GE(curve.points().size(), MetricCurve::kMostPoints / 2);
  EXPECT_EQ(curve.newest_epoch(), 10'000);
  EXPECT_EQ(curve.points().front().epoch, 1);
  curve.add(10'000, 2);
  EXPECT_EQ(curve.points().back(), (MetricPoint{.epoch = 10'000, .metric = 2}));
  curve.add(3, 5);  // the past does not change
  EXPECT_EQ(curve.best_until(9'000, true), curve.until(9'000).best_until(9'000, true));
  EXPECT_EQ(curve.points().back(), (MetricPoint{.epoch = 10'000, .metric = 2}));
}

TEST(MetricCurve, KeepsUpWithOneThatWasNoBetterAtTheSameShare) {
  const MetricCurve converged = curve_of(10, [](int epoch) { return epoch < 8 ? 0.1 : 0.9; });
  const MetricTarget target{.metric = 0.9, .higher_is_better = true, .last_epoch = 100};
  EXPECT_TRUE(keeps_up(curve_of(79, [](int) { return 0.1; }), converged, target));
  EXPECT_FALSE(keeps_up(curve_of(80, [](int) { return 0.1; }), converged, target));
  EXPECT_FALSE(keeps_up(curve_of(50, [](int) { return 0.09; }), converged, target));
  EXPECT_TRUE(keeps_up(curve_of(9, [](int) { return 0.0; }), converged, target));  // too early
  EXPECT_FALSE(keeps_up(curve_of(9, [](int) { return kMetricNan; }), converged, target));
}

}  // namespace
}  // namespace harpe::zeus
