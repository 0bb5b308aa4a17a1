// Forecasts of a recorded series, and outlooks of how the actual values may differ from them.

#include "harpe/lab/carbon_replay/forecast_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace harpe::lab {
namespace {

carbon::IntensitySeries days_of_noise(int days, unsigned seed) {
  std::mt19937_64 random(seed);
  carbon::IntensitySeries series;
  double level = 0;
  for (int i = 0; i < 24 * days; ++i) {
    level = 0.97 * level + static_cast<double>(random() % 1000) / 1000 - 0.5;
    series.values.push_back(300 + 80 * std::sin(i * 6.283185307 / 24) + 25 * level);
  }
  series.estimated.assign(series.values.size(), 0);
  return series;
}

TEST(ForecastTable, OutlooksAreOfThePastAlone) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const carbon::IntensitySeries series = days_of_noise(75, seed);
  carbon::IntensitySeries other = series;
  const std::size_t now = 24 * 70 + 5;
  for (std::size_t i = now; i < other.size(); ++i) other.values[i] = 1 + other.values[i] / 2;
  const auto table = ForecastTable::make(series, nullptr).take();
  const auto changed = ForecastTable::make(other, nullptr).take();
  const auto outlooks = table.outlooks(now, 36);
  EXPECT_EQ(outlooks, changed.outlooks(now, 36));
  EXPECT_EQ(outlooks.size(), 70U - 30 - 2 + 1);
  for (const auto& outlook : outlooks) EXPECT_EQ(outlook.size(), 36U);
  EXPECT_TRUE(table.outlooks(24 * 20, 36).empty()) << "forecasts are new";
}

TEST(ForecastTable, WhatComesLiesAmongTheOutlooks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const carbon::IntensitySeries earlier = days_of_noise(90, seed);
  carbon::IntensitySeries series = days_of_noise(60, seed + 1);
  series.start = earlier.end();
  const auto table = ForecastTable::make(series, &earlier).take();
  int below = 0, all = 0;
  for (std::size_t now = 24; now + 48 < series.size(); now += 7) {
    const auto outlooks = table.outlooks(now, 12);
    EXPECT_LE(outlooks.size(), 200U);
    const auto lower = std::ranges::count_if(
        outlooks, [&](const auto& outlook) { return outlook[11] < series.values[now + 11]; });
    const double share = static_cast<double>(lower) / static_cast<double>(outlooks.size());
    below += share < 0.05 || share > 0.95 ? 1 : 0;
    ++all;
  }
  // Ideal outlooks miss a tenth of the values.
  EXPECT_LT(below, all / 4);
  EXPECT_GT(below, all / 50);
}

TEST(ForecastTable, BeyondFourDaysIsTheUsual) {
  carbon::IntensitySeries series;
  for (int i = 0; i < 24 * 60; ++i) series.values.push_back(i % 24 < 12 ? 100 : 400);
  series.estimated.assign(series.values.size(), 0);
  const auto table = ForecastTable::make(series, nullptr).take();
  EXPECT_NEAR(table.at(24 * 40, 24 * 46 + 3), 100, 1);
  EXPECT_NEAR(table.at(24 * 40, 24 * 46 + 15), 400, 1);
  auto perfect = ForecastTable::make(series, nullptr).take();
  perfect.set_error_share(0);
  EXPECT_NEAR(perfect.at(0, 15), 400, 1e-6);
}

}  // namespace
}  // namespace harpe::lab
