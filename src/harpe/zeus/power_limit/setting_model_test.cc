// Time and power under unmeasured settings.

#include "harpe/zeus/power_limit/setting_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harpe/zeus/power_limit/power_limits_testing.h"

namespace harpe::zeus {
namespace {

Knob model_limits() {
  return power_limits({100}, {300});
}

std::vector<std::optional<Measurement>> only_highest(double watts) {
  std::vector<std::optional<Measurement>> measured(model_limits().size());
  measured[0] = Measurement{300, {10}, {10 * watts}};
  return measured;
}

TEST(SettingModel, ALimitAboveWhatIsDrawnChangesNextToNothing) {
  const auto measured = only_highest(120);
  for (const SettingForecast& one :
       SettingModel(model_limits(), *measured[0], 1).forecast(measured)) {
    EXPECT_LT(one.log_time, 0.15);
    EXPECT_GT(one.log_power, std::log(0.75));
  }
}

TEST(SettingModel, BelowWhatIsDrawnTimeRisesAndPowerFallsAndBothAreLessSure) {
  const auto measured = only_highest(280);
  const auto forecast = SettingModel(model_limits(), *measured[0], 1).forecast(measured);
  for (std::size_t i = 1; i < forecast.size(); ++i) {
    EXPECT_GT(forecast[i].log_time, forecast[i - 1].log_time);
    EXPECT_LT(forecast[i].log_power, forecast[i - 1].log_power);
    EXPECT_GT(forecast[i].time_variance, forecast[i - 1].time_variance);
  }
}

TEST(SettingModel, DependsOnPowerAGpuAndNotOnTheirNumber) {
  const auto one = only_highest(200);
  auto four = one;
  four[0]->energy = four[0]->energy * 4;
  const auto a = SettingModel(model_limits(), *one[0], 1).forecast(one);
  const auto b = SettingModel(model_limits(), *four[0], 4).forecast(four);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_DOUBLE_EQ(a[i].log_time, b[i].log_time);
}

TEST(SettingModel, AMeasurementPullsItsNeighboursAndMakesThemSurer) {
  auto measured = only_highest(280);
  const SettingModel model(model_limits(), *measured[0], 1);
  const auto before = model.forecast(measured);
  measured[4] = Measurement{200, {25}, {25 * 195.0}};
  const auto after = model.forecast(measured);
  EXPECT_GT(after[4].log_time, before[4].log_time);
  EXPECT_GT(after[5].log_time, before[5].log_time);
  EXPECT_LT(after[5].time_variance, before[5].time_variance);
}

TEST(ScoreForecast, ImprovementIsThatOfSampling) {
  unsigned seed = 7;
  for (const ScoreForecast& score :
       {ScoreForecast{0, 0.1}, ScoreForecast{0.1, 0.1}, ScoreForecast{-0.3, 0.05}}) {
    SCOPED_TRACE("seed " + std::to_string(++seed));
    std::mt19937_64 random(seed);
    double sum = 0;
    constexpr int kSamples = 200'000;
    for (int i = 0; i < kSamples; ++i) {
      const double u = (static_cast<double>(random() >> 11) + 1) * 0x1.0p-53;
      const double v = static_cast<double>(random() >> 11) * 0x1.0p-53;
      const double normal = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
      sum += std::max(0.0, -(score.log_score + score.deviation * normal));
    }
    EXPECT_NEAR(score.improvement_on(0), sum / kSamples, 0.001);
  }
}

TEST(ScoreOf, IsTheWeightedSumOfWhatIsForecast) {
  const Measurement highest{300, {10}, {2500}};
  const ScoreWeights weights{.per_joule = 0.5, .per_second = 150};
  const SettingForecast forecast{std::log(1.2), 0.0004, std::log(0.8), 0};
  EXPECT_NEAR(std::exp(score_of(forecast, highest, weights).log_score),
              weights.of({12}, {12 * 200.0}), 1e-9);
}

}  // namespace
}  // namespace harpe::zeus
