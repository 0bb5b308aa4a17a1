// Simulated searches: their gains, and when they end.

#include "harpe/training/job/search_course.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace harpe::training {
namespace {

constexpr SearchLimits kLimits{.time = Seconds{1e9}, .first = 1000, .least = 4000, .most = 1 << 20};

/// The energy of a plan after a number of windows. It is the same in each slice.
struct Landscape {
  Joules first{1000}, bound{0};
  std::map<std::int64_t, double> gains = {};  ///< by windows, shares of the energy
  double windows_per_second = 1000;

  Joules energy(std::int64_t windows) const {
    Joules energy = first;
    for (const auto& [at, gain] : gains)
      if (at <= windows) energy = energy * (1 - gain);
    return energy;
  }
};

struct Played {
  std::vector<std::int64_t> slices = {};  ///< windows that each slice has tried
  std::int64_t windows() const { return slices.empty() ? 0 : slices.back(); }
};

Played play(SearchCourse course, const Landscape& landscape) {
  constexpr std::int64_t kTold = 50;
  Played played;
  while (!course.ended()) {
    course.begin_slice();
    std::int64_t windows = 0;
    const auto taken = [&] {
      return Seconds{static_cast<double>(windows) / landscape.windows_per_second};
    };
    while (windows < course.slice() &&
           course.goes_on(windows, landscape.energy(windows), landscape.bound, taken()))
      windows += kTold;
    course.end_slice(taken());
    played.slices.push_back(windows);
    EXPECT_EQ(course.windows(), std::ranges::max(played.slices));
    EXPECT_LT(played.slices.size(), 40U);
    if (played.slices.size() >= 40) break;
  }
  return played;
}

TEST(SearchCourse, SlicesDoubleUntilAsMuchWorkAgainHasGainedNothing) {
  const Played played = play(SearchCourse(kLimits), {.gains = {{300, 1e-3}, {3000, 1e-3}}});
  EXPECT_EQ(played.slices, (std::vector<std::int64_t>{1000, 2000, 4000, 6000}));
}

TEST(SearchCourse, InVainEndsAfterTheLeast) {
  EXPECT_EQ(play(SearchCourse(kLimits), {}).slices, (std::vector<std::int64_t>{1000, 2000, 4000}));
}

TEST(SearchCourse, EndsWhereThePlanIsProvenToBeTheBest) {
  const Landscape landscape{
      .first = Joules{1000}, .bound = Joules{999}, .gains = {{1500, 1e-3}, {1700, 1e-3}}};
  EXPECT_EQ(play(SearchCourse(kLimits), landscape).slices, (std::vector<std::int64_t>{1000, 1500}));
  EXPECT_EQ(play(SearchCourse(kLimits), {.bound = Joules{1000}}).slices,
            (std::vector<std::int64_t>{0}));
}

TEST(SearchCourse, TakesNoMoreTimeThanItMay) {
  Landscape landscape{.gains = {}, .windows_per_second = 1000};
  for (std::int64_t at = 100; at < (1 << 20); at = at * 3 / 2) landscape.gains[at] = 1e-3;
  for (const double limit : {0.01, 0.7, 1.0, 3.0, 20.5}) {
    SearchLimits limits = kLimits;
    limits.time = Seconds{limit};
    const Played played = play(SearchCourse(limits), landscape);
    std::int64_t all = 0;
    for (const std::int64_t slice : played.slices) all += slice;
    EXPECT_NEAR(static_cast<double>(all), limit * 1000, 50) << limit;
  }
}

TEST(SearchCourse, WhatIsGivenUpCountsAsTimeAlone) {
  SearchCourse course(kLimits);
  course.begin_slice();
  EXPECT_TRUE(course.goes_on(0, Joules{10}, Joules{1}, Seconds{0}));
  course.give_up_slice(Seconds{3});
  EXPECT_EQ(course.slice(), kLimits.first);
  EXPECT_EQ(course.spent(), Seconds{3});
  EXPECT_FALSE(course.ended());
  course.give_up_slice(kLimits.time);
  EXPECT_TRUE(course.ended());
}

// For any gains, the search ends as soon as the last gain is in the first half of the tried
// windows. All slices together try at most three times as many windows as the longest slice.
TEST(SearchCourse, EndsByItsRuleForAnyGains) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Landscape landscape;
    const int gains = static_cast<int>(random() % 12);
    for (int i = 0; i < gains; ++i) {
      const double order = std::uniform_real_distribution(1.0, 5.5)(random);
      // At odd multiples of the 50 windows between reports, where no slice ends.
      landscape.gains[50 + 100 * static_cast<std::int64_t>(std::pow(10, order) / 100)] = 1e-3;
    }
    const Played played = play(SearchCourse(kLimits), landscape);
    std::int64_t last = 0, expected = kLimits.least;
    for (const auto& [at, gain] : landscape.gains) {
      if (at >= expected) break;
      last = at;
      expected = std::max(kLimits.least, 2 * last);
    }
    EXPECT_EQ(played.windows(), std::min(expected, kLimits.most));
    std::int64_t all = 0;
    for (const std::int64_t slice : played.slices) all += slice;
    EXPECT_LE(all, 3 * std::max(played.windows(), kLimits.least));
  }
}

TEST(SearchCourse, GainsThatAreNotWorthAChangeDoNotProlongIt) {
  Landscape landscape;
  for (std::int64_t at = 50; at < 100'000; at *= 2)
    landscape.gains[at] = SearchCourse::kWorthwhile / 20;
  EXPECT_EQ(play(SearchCourse(kLimits), landscape).windows(), kLimits.least);
  // But they add up.
  for (std::int64_t at = 50; at <= 3000; at += 50)
    landscape.gains[at] = SearchCourse::kWorthwhile / 20;
  EXPECT_GT(play(SearchCourse(kLimits), landscape).windows(), kLimits.least);
}

}  // namespace
}  // namespace harpe::training
