#include "harpe/carbon/carbon/forecaster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harpe/carbon/carbon/combination.h"
#include "harpe/carbon/carbon/intensity_forecaster.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {
namespace {

constexpr ForecastGrid kForecasterGrid{.slots_per_day = 24, .horizon = 48};

TEST(Forecaster, WorksInLogarithmsThatAllowNegativeValues) {
  EXPECT_NEAR(to_log(300), std::log(300), 1e-4);
  for (const double grams : {-500.0, -1.0, 0.0, 0.5, 32.0, 900.0}) {
    EXPECT_NEAR(from_log(to_log(grams)), grams, 1e-9 * (1 + std::abs(grams)));
  }
  EXPECT_TRUE(std::isfinite(from_log(1e9)));
}

TEST(Forecaster, FillsGapsWithTheDayBefore) {
  LogHistory history(24);
  for (int i = 0; i < 24; ++i) history.add(100 + i);
  history.add(kNoValue);
  history.add(200);
  EXPECT_FALSE(history.known(24));
  EXPECT_EQ(history[24], history[0]);
  EXPECT_EQ(history[25], to_log(200));
}

TEST(Forecaster, RepeatsTheNewestValueOrTheSameHour) {
  LogHistory history(24);
  std::vector<double> ahead(48);
  EXPECT_FALSE(make_persistence()->forecast(history, ahead));
  for (int i = 0; i < 24; ++i) history.add(100 + i);
  ASSERT_TRUE(make_persistence()->forecast(history, ahead));
  EXPECT_NEAR(from_log(ahead[47]), 123, 1e-9);
  ASSERT_TRUE(make_same_hour()->forecast(history, ahead));
  EXPECT_NEAR(from_log(ahead[0]), 100, 1e-9);   // 24 h before the target
  EXPECT_NEAR(from_log(ahead[23]), 123, 1e-9);  // the newest value itself
  EXPECT_NEAR(from_log(ahead[24]), 100, 1e-9);  // beyond a day: two days before the target
  EXPECT_FALSE(make_weekly_profile()->forecast(history, ahead));
}

TEST(Forecaster, KnowsTheSameHourWhenTheForecastIsMade) {
  for (std::size_t ahead = 1; ahead <= 96; ++ahead) {
    const std::size_t newest = 200, before = same_hour_before(newest, ahead, 24);
    EXPECT_LE(before, newest);
    EXPECT_GT(before + 24, newest);
    EXPECT_EQ((newest + ahead - before) % 24, 0U);
  }
}

TEST(Forecaster, ProfilesWeighYesterdayAsMuchAsTheWeekBefore) {
  LogHistory history(24);
  for (int day = 0; day < 7; ++day) {
    for (int hour = 0; hour < 24; ++hour) history.add(day == 6 ? 300 : 100);
  }
  std::vector<double> ahead(48);
  ASSERT_TRUE(make_weekly_profile()->forecast(history, ahead));
  EXPECT_NEAR(ahead[5], (to_log(300) + to_log(100)) / 2, 1e-12);
}

/// Forecasts a constant, once it has seen `from` values.
class Stubborn final : public Forecaster {
 public:
  Stubborn(double grams, std::size_t from) : value_(to_log(grams)), from_(from) {}
  std::string name() const override { return "stubborn"; }
  void observe(const LogHistory& /*history*/) override {}
  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    for (double& value : ahead) value = value_;
    return history.size() >= from_;
  }

 private:
  double value_;
  std::size_t from_;
};

TEST(Combination, FollowsWhoErrsLeast) {
  std::vector<std::unique_ptr<Forecaster>> members;
  members.push_back(std::make_unique<Stubborn>(300, 1));
  members.push_back(std::make_unique<Stubborn>(110, 200));
  Combination combination(std::move(members), kForecasterGrid);
  LogHistory history(24);
  std::vector<double> ahead(48);
  EXPECT_FALSE(combination.forecast(history, ahead));
  for (int i = 0; i < 400; ++i) {
    history.add(100);
    combination.observe(history);
    ASSERT_TRUE(combination.forecast(history, ahead));
    if (i < 200) {  // alone, or before the errors of its rival are known
      EXPECT_NEAR(from_log(ahead[7]), 300, 1e-6);
    }
  }
  EXPECT_NEAR(from_log(ahead[0]), 110, 1e-6);
  EXPECT_NEAR(from_log(ahead[47]), 110, 1e-6);
  EXPECT_EQ(combination.member_forecast(0).size(), 48U);
}

TEST(IntensityForecaster, SpeaksFromTheFirstValueOn) {
  IntensityForecaster forecaster(kForecasterGrid);
  forecaster.observe(kNoValue);
  EXPECT_FALSE(forecaster.forecast());
  forecaster.observe(250);
  ASSERT_TRUE(forecaster.forecast());
  EXPECT_NEAR(forecaster.forecast()->expected[10], 250, 1e-6);
  EXPECT_TRUE(std::isnan(forecaster.forecast()->lower[10]));
}

TEST(IntensityForecaster, KeepsIntervalsAroundAndAboveNothing) {
  IntensityForecaster forecaster(kForecasterGrid);
  for (int i = 0; i < 24 * 40; ++i) {
    forecaster.observe(i % 131 == 17 ? kNoValue : i % 24 < 6 ? 0 : 30 + i % 7);
    if (!forecaster.forecast()) continue;
    for (std::size_t k = 0; k < kForecasterGrid.horizon; ++k) {
      ASSERT_GE(forecaster.forecast()->expected[k], 0);
      ASSERT_TRUE(std::isfinite(forecaster.forecast()->expected[k]));
      if (std::isnan(forecaster.forecast()->lower[k])) continue;
      ASSERT_LE(forecaster.forecast()->lower[k], forecaster.forecast()->upper[k]);
    }
  }
  EXPECT_FALSE(std::isnan(forecaster.forecast()->lower[47]));
}

}  // namespace
}  // namespace harpe::carbon
