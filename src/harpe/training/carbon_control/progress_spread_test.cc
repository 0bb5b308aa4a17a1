#include <gtest/gtest.h>

#include <random>

#include "harpe/training/carbon_control/control_state.h"

namespace harpe::training {
namespace {

TEST(NormalQuantile, IsThatOfTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-3);
  EXPECT_NEAR(normal_quantile(0.95), 1.6449, 1e-3);
  EXPECT_NEAR(normal_quantile(0.999), 3.0902, 1e-3);
  EXPECT_NEAR(normal_quantile(0.05), -1.6449, 1e-3);
}

TEST(ProgressSpread, KeepsALittleBeforeAnythingIsMeasured) {
  const ProgressSpread none;
  EXPECT_EQ(none.reserve(0, 0.95), 0);
  const double day = none.reserve(86'400, 0.95);
  EXPECT_GT(day, 600);
  EXPECT_LT(day, 86'400 * 0.2);
  EXPECT_GT(none.reserve(86'400, 0.99), day);
  EXPECT_LT(none.reserve(3600, 0.95), day);
}

TEST(ProgressSpread, WhatIsAlwaysLostCountsInFull) {
  ProgressSpread spread;
  for (int i = 0; i < 100; ++i) spread.add({.planned = 3600, .lost = 180});
  EXPECT_NEAR(spread.mean_loss(), 0.05 / 1.04, 1e-9);
  EXPECT_GT(spread.reserve(36'000, 0.95), 36'000 * 0.048);
  EXPECT_LT(spread.reserve(36'000, 0.95), 36'000 * 0.07);
}

TEST(ProgressSpread, ARestartNowAndThenCountsAsOneWhole) {
  ProgressSpread rare;
  for (int i = 0; i < 100; ++i) rare.add({.planned = 3600, .lost = i % 10 == 0 ? 1800.0 : 0.0});
  // One hour in ten loses half of its time.
  EXPECT_GT(rare.reserve(3600, 0.95), 1600);
  EXPECT_LT(rare.reserve(3600, 0.75), 1600);
}

TEST(ProgressSpread, OfWhatIsLeftNoMoreIsLost) {
  ProgressSpread spread;
  for (int i = 0; i < 100; ++i) spread.add({.planned = 3600, .lost = i % 10 == 0 ? 1800.0 : 0.0});
  EXPECT_LT(spread.reserve(60, 0.95), 3600);
}

TEST(ProgressSpread, TheReserveHoldsAsOftenAsItSays) {
  constexpr int kJobs = 2000, kHours = 12, kLearned = 60;
  constexpr unsigned kSeed = 20261125;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> slow(60, 90);
  for (const double probability : {0.8, 0.95}) {
    int exceeded = 0;
    for (int job = 0; job < kJobs; ++job) {
      ProgressSpread spread;
      for (int i = 0; i < kLearned; ++i) spread.add({.planned = 3600, .lost = slow(random)});
      double lost = 0;
      for (int i = 0; i < kHours; ++i) lost += slow(random);
      if (lost > spread.reserve(kHours * 3600.0, probability)) ++exceeded;
    }
    const double most = (1 - probability) * kJobs;
    EXPECT_LT(exceeded, most + 3 * std::sqrt(most)) << probability;
    // The reserve does not cover every loss: that would cost the gain of pacing.
    EXPECT_GT(exceeded, 0) << probability;
  }
}

TEST(ProgressSpread, ForgetsWhatIsLongAgo) {
  ProgressSpread spread;
  for (int i = 0; i < 50; ++i) spread.add({.planned = 3600, .lost = 3000});
  for (std::size_t i = 0; i < ProgressSpread::kMostIntervals; ++i) {
    spread.add({.planned = 3600, .lost = 0});
  }
  EXPECT_EQ(spread.intervals().size(), ProgressSpread::kMostIntervals);
  EXPECT_EQ(spread.mean_loss(), 0);
  spread.add({.planned = 0, .lost = 5});
  EXPECT_EQ(spread.intervals().back().planned, 3600);
}

}  // namespace
}  // namespace harpe::training
