// The limits of a batch size that are worth measuring.

#include "harpe/zeus/power_limit/limit_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <set>

#include "harpe/zeus/power_limit/power_limits_testing.h"

namespace harpe::zeus {
namespace {

constexpr ScoreWeights kCost{.per_joule = 0.5, .per_second = 0.5 * 300};

const Knob& planned_limits() {
  static const Knob kLimits = power_limits({100}, {300});
  return kLimits;
}

/// Time and energy of an epoch with a size under a limit.
using Law = std::function<Measurement(int size, double limit)>;

/// A GPU that draws more with larger batches. Under lower limits, time rises faster and faster.
Law gpu(double drawn_by_64, double scatter, std::uint64_t seed) {
  return [=](int size, double limit) {
    const double drawn = drawn_by_64 * std::pow(size / 64.0, 0.1);
    const double x = limit / drawn;
    std::mt19937_64 random(seed + static_cast<unsigned>(size) * 1000 +
                           static_cast<unsigned>(limit));
    std::normal_distribution<double> error(0, scatter);
    const double slow = std::exp(0.8 * std::log1p(std::exp((0.5 - x) / 0.12)) + error(random));
    const double watts = drawn * std::pow(std::pow(x, -5) + 1, -0.2);
    const double seconds = 100 * slow * std::pow(size, -0.3);
    return Measurement{limit, {seconds}, {seconds * watts}};
  };
}

double score(const Measurement& one) {
  return kCost.of(one.time, one.energy);
}

/// Measures the worthwhile limits of a size, in one epoch. \returns  their number
std::size_t measure(const Law& law, SizeProfile& own, const std::vector<SizeProfile>& others,
                    double epochs) {
  std::size_t count = 0;
  while (const auto next = next_limit(planned_limits(), own, others,
                                      {.weights = kCost, .epochs = epochs, .in_epoch = count})) {
    own.measured.push_back(law(own.batch_size, planned_limits()[*next]));
    ++count;
    if (count > planned_limits().size()) break;
  }
  return count;
}

double least_score(const Law& law, int size) {
  double least = score(law(size, planned_limits()[0]));
  for (const double limit : planned_limits().settings())
    least = std::min(least, score(law(size, limit)));
  return least;
}

TEST(LimitPlan, TheFirstSizeBeginsWithTheHighest) {
  EXPECT_EQ(next_limit(planned_limits(), {.batch_size = 64}, {}, {.weights = kCost}), 0U);
  // A size without measurements gives no information either.
  const std::vector<SizeProfile> others{{.batch_size = 32}};
  EXPECT_EQ(next_limit(planned_limits(), {.batch_size = 64}, others, {.weights = kCost}), 0U);
}

TEST(LimitPlan, WithoutLimitsNothingIsMeasured) {
  EXPECT_EQ(next_limit(Knob(), {.batch_size = 64}, {}, {.weights = kCost}), std::nullopt);
}

TEST(LimitPlan, OnlyWhatMayBeBestIsMeasuredNextToAKnownSizeAndTheBestIsFound) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::size_t measured = 0, jobs = 100;
  double loss = 0;
  for (std::size_t job = 0; job < jobs; ++job) {
    const Law law = gpu(std::uniform_real_distribution<>(150, 320)(random), 0.003, random());
    SizeProfile known{.batch_size = 64};
    for (const double limit : planned_limits().settings()) known.measured.push_back(law(64, limit));
    SizeProfile own{.batch_size = 96};
    measured += measure(law, own, {known}, 200);
    const double over = score(*own.best(kCost)) / least_score(law, 96) - 1;
    EXPECT_LT(over, 0.03);
    loss += over / static_cast<double>(jobs);
  }
  EXPECT_LT(loss, 0.002);
  EXPECT_LT(measured, 6 * jobs) << "of nine";
}

TEST(LimitPlan, WhereTimesScatterAllIsMeasured) {
  const Law law = gpu(60, 0.06, 7);
  SizeProfile known{.batch_size = 64};
  EXPECT_EQ(measure(law, known, {}, 1000), planned_limits().size());
  SizeProfile own{.batch_size = 128};
  EXPECT_EQ(measure(law, own, {known}, 1000), planned_limits().size());
}

TEST(LimitPlan, EachLimitIsMeasuredOnceAndALastIsReached) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int job = 0; job < 50; ++job) {
    const Law law = gpu(std::uniform_real_distribution<>(50, 400)(random),
                        std::uniform_real_distribution<>(0, 0.1)(random), random());
    std::vector<SizeProfile> others;
    for (const int size : {64, 32, 128, 256, 512, 16}) {
      SizeProfile own{.batch_size = size};
      measure(law, own, others, 1e6);
      std::set<double> settings;
      for (const Measurement& one : own.measured) settings.insert(one.setting);
      EXPECT_EQ(settings.size(), own.measured.size());
      others.push_back(own);
    }
  }
}

TEST(LimitPlan, WhatIsWorthItWithFewEpochsToComeIsWithMore) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int worth_now = 0;
  for (int job = 0; job < 100; ++job) {
    const Law law = gpu(std::uniform_real_distribution<>(50, 400)(random), 0.02, random());
    const SizeProfile own{.batch_size = 64, .measured = {law(64, 300), law(64, 200)}};
    const LimitPlanOptions now{.weights = kCost, .epochs = 10, .in_epoch = 0};
    const LimitPlanOptions later{.weights = kCost, .epochs = 100, .in_epoch = 0};
    if (!next_limit(planned_limits(), own, {}, now)) continue;
    ++worth_now;
    EXPECT_TRUE(next_limit(planned_limits(), own, {}, later));
  }
  EXPECT_GT(worth_now, 0);
}

TEST(LimitPlan, HowLongAnEpochIsDoesNotMatter) {
  const Law law = gpu(250, 0.01, 3);
  const auto plan = [&](double factor, double factor_of_others) {
    SizeProfile known{.batch_size = 64}, own{.batch_size = 128};
    for (const double limit : planned_limits().settings()) {
      Measurement one = law(64, limit);
      one.time = one.time * factor_of_others;
      one.energy = one.energy * factor_of_others;
      known.measured.push_back(one);
    }
    std::vector<std::size_t> order;
    while (const auto next =
               next_limit(planned_limits(), own, std::vector{known},
                          {.weights = kCost, .epochs = 100, .in_epoch = order.size()})) {
      Measurement one = law(128, planned_limits()[*next]);
      one.time = one.time * factor;
      one.energy = one.energy * factor;
      own.measured.push_back(one);
      order.push_back(*next);
    }
    return order;
  };
  const auto order = plan(1, 1);
  EXPECT_GE(order.size(), 2U);
  EXPECT_EQ(plan(1000, 1), order);
  EXPECT_EQ(plan(1, 1e6), order);
}

TEST(LimitPlan, TheBestOfASizeIsTheCheapestAndOfEqualsTheHigher) {
  SizeProfile profile{.batch_size = 64};
  EXPECT_EQ(profile.best(kCost), nullptr);
  profile.measured = {{300, {2}, {400}}, {200, {1}, {200}}, {250, {1}, {200}}};
  EXPECT_EQ(profile.best(kCost)->setting, 250);
  EXPECT_TRUE(profile.has(200));
  EXPECT_FALSE(profile.has(225));
}

}  // namespace
}  // namespace harpe::zeus
