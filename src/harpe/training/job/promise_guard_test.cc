#include "harpe/training/job/promise_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>

namespace harpe::training {
namespace {

constexpr std::uint64_t kSeeds = HARPE_UNDER_SANITIZERS ? 1 : 6;

/// Returns the number of iterations until the promise is found broken.
std::optional<int> broken_after(PromiseGuard& guard, int iterations,
                                const std::function<double(int)>& ratio, double allowed_error = 0) {
  for (int i = 0; i < iterations; ++i) {
    guard.add(i, Seconds{2 * ratio(i)}, Seconds{2});
    if (guard.broken(allowed_error)) return i + 1;
  }
  return std::nullopt;
}

TEST(PromiseGuard, FindsWhatIsSlowerThanItsTolerance) {
  for (const double over : {0.006, 0.02, 0.3}) {
    PromiseGuard guard;
    EXPECT_EQ(broken_after(guard, 100, [&](int) { return 1 + over; }), 8) << over;
    EXPECT_NEAR(guard.broken(0)->ratio, 1 + over, 1e-12);
  }
  PromiseGuard guard;
  EXPECT_EQ(broken_after(guard, 500, [](int) { return 1.004; }), std::nullopt);
  EXPECT_NEAR(guard.mean(100)->ratio, 1.004, 1e-12);
}

TEST(PromiseGuard, SeesSmallExcessThroughNoiseWithinItsWindow) {
  for (std::uint64_t seed = 1; seed <= 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(1.015, 0.02);
    PromiseGuard guard;
    const auto found = broken_after(guard, 400, [&](int) { return noise(random); });
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(*found, 250);
  }
}

TEST(PromiseGuard, NoiseHardlyEverBreaksAPromise) {
  for (const double deviation : {0.002, 0.01, 0.05}) {
    int alarms = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      std::mt19937_64 random(seed);
      std::normal_distribution<double> noise(1, deviation);
      PromiseGuard guard;
      for (int i = 0; i < 2000; ++i) {
        guard.add(i, Seconds{noise(random)}, Seconds{1});
        if (!guard.broken(0)) continue;
        ++alarms;
        guard.reset();
      }
    }
    EXPECT_LE(alarms, 4) << "in some thousand iterations, deviation " << deviation;
  }
}

TEST(PromiseGuard, WhatHappensSeldomIsNoPlansDoing) {
  PromiseGuard guard;
  EXPECT_EQ(broken_after(guard, 1000, [](int i) { return i % 25 == 0 ? 40 : 1.0; }), std::nullopt);
  EXPECT_EQ(guard.stalls(), 40);
  EXPECT_EQ(guard.mean(100)->ratio, 1);
  // Shorter stalls, such as garbage collection.
  PromiseGuard other;
  EXPECT_EQ(broken_after(other, 1000, [](int i) { return i % 25 == 0 ? 1.4 : 1.0; }), std::nullopt);
  EXPECT_EQ(other.stalls(), 0);
}

TEST(PromiseGuard, IsAsUncertainAsWhatIsAllowed) {
  PromiseGuard guard;
  EXPECT_EQ(broken_after(guard, 200, [](int) { return 1.02; }, 0.01), std::nullopt);
  EXPECT_TRUE(guard.broken(0.005).has_value());
  EXPECT_TRUE(guard.broken(0.01, 1).has_value());
}

TEST(PromiseGuard, ForgetsWhatIsAnswered) {
  PromiseGuard guard;
  (void)broken_after(guard, 30, [](int i) { return i < 20 ? 1.0 : 1.004; });
  EXPECT_EQ(guard.iterations(), 30U);
  guard.forget_since(20);
  EXPECT_EQ(guard.iterations(), 20U);
  EXPECT_EQ(guard.mean(10)->ratio, 1);
  guard.add(30, Seconds{50}, Seconds{2});
  guard.reset();
  EXPECT_EQ(guard.mean(100), std::nullopt);
  EXPECT_EQ(guard.stalls(), 1);
}

TEST(PromiseGuard, WhereNothingIsAllowedThereIsNothingToCompare) {
  PromiseGuard guard;
  EXPECT_FALSE(guard.add(0, Seconds{1}, Seconds{0}));
  EXPECT_FALSE(guard.add(1, Seconds{std::nan("")}, Seconds{1}));
  EXPECT_EQ(guard.iterations(), 0U);
  EXPECT_EQ(guard.stalls(), 0);
}

}  // namespace
}  // namespace harpe::training
