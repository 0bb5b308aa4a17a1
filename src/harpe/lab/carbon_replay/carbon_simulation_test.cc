// Jobs under made-up intensities, for which the result of each policy is known.

#include "harpe/lab/carbon_replay/carbon_simulation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace harpe::lab {
namespace {

carbon::IntensitySeries simulated_series(int hours, double (*value)(int)) {
  carbon::IntensitySeries series;
  for (int i = 0; i < hours; ++i) series.values.push_back(value(i));
  series.estimated.assign(series.values.size(), 0);
  return series;
}

CarbonJob some_job() {
  return {.choices = {{{1.0}, {300}}, {{1.1}, {260}}, {{1.3}, {240}}},
          .work = {10 * 3600.0},
          .deadline_factor = 1.5,
          .pause = {.idle_power = {0}, .min_dwell = {3600}}};
}

TEST(CarbonSimulation, OnAFlatGridAllWaysButTheFastestAreTheSame) {
  const carbon::IntensitySeries series = simulated_series(24 * 10, [](int) { return 360.0; });
  const ForecastTable forecasts = ForecastTable::make(series, nullptr).take();
  CarbonJob job = some_job();
  job.pause.allowed = true;
  const auto simulation = CarbonSimulation::make(job, series, &forecasts).take();
  const StartOutcome outcome = simulation.at(100);
  // 36,000 pieces at 0.1 g/kJ: of 300 J each, or of 240 J at the slowest pace.
  EXPECT_NEAR(outcome.all_max.grams, 36000.0 * 300 * 360 / 3.6e6, 1e-6);
  EXPECT_NEAR(outcome.best_static.grams, 36000.0 * 240 * 360 / 3.6e6, 1e-6);
  EXPECT_NEAR(outcome.harpe.grams, outcome.best_static.grams, 1e-3);
  EXPECT_NEAR(outcome.hindsight.grams, outcome.best_static.grams, 1e-3);
  EXPECT_NEAR(outcome.bound, outcome.best_static.grams, 1e-3);
  EXPECT_TRUE(outcome.harpe.in_time && outcome.all_max.in_time);
  EXPECT_EQ(outcome.harpe.pauses, 0);
}

TEST(CarbonSimulation, APlanWaitsForACleanNightThatAForecastKnows) {
  const carbon::IntensitySeries series =
      simulated_series(24 * 20, [](int i) { return i % 24 < 12 ? 100.0 : 400.0; });
  const ForecastTable forecasts = ForecastTable::make(series, nullptr).take();
  CarbonJob job = some_job();
  job.pause.allowed = true;
  const auto simulation = CarbonSimulation::make(job, series, &forecasts).take();
  // From noon: 12 dirty hours, then three clean ones until the deadline.
  const StartOutcome outcome = simulation.at(24 * 15 + 12);
  EXPECT_LT(outcome.hindsight.grams, 0.9 * outcome.best_static.grams);
  EXPECT_LT(outcome.harpe.grams, 0.95 * outcome.best_static.grams);
  EXPECT_GE(outcome.hindsight.grams, outcome.bound * (1 - 1e-9));
  EXPECT_TRUE(outcome.harpe.in_time);
  // Without pauses the job must run all the time, and a change of speed alone saves little.
  job.pause.allowed = false;
  const auto running = CarbonSimulation::make(job, series, &forecasts).take().at(24 * 15 + 12);
  EXPECT_GT(running.hindsight.grams, outcome.hindsight.grams);
  EXPECT_EQ(running.harpe.pauses, 0);
}

TEST(CarbonSimulation, ForeseesWithoutAForecastWhatNoPlanCanBeat) {
  const carbon::IntensitySeries series =
      simulated_series(24 * 10, [](int i) { return 200.0 + 90 * (i % 24 < 7) + i * 31 % 17; });
  const ForecastTable forecasts = ForecastTable::make(series, nullptr).take();
  CarbonJob job = some_job();
  job.pause.allowed = true;
  const auto simulation = CarbonSimulation::make(job, series, &forecasts).take();
  const auto without = CarbonSimulation::make(job, series, nullptr).take();
  for (const std::size_t start : {3U, 50U, 121U}) {
    const ForeseenOutcome foreseen = without.foreseen(start);
    const StartOutcome outcome = simulation.at(start);
    EXPECT_EQ(foreseen.best_static.grams, outcome.best_static.grams);
    EXPECT_LE(foreseen.bound, outcome.hindsight.grams * (1 + 1e-9));
    EXPECT_GT(foreseen.bound, 0.97 * outcome.hindsight.grams);
  }
}

TEST(CarbonSimulation, EmbodiedCarbonSpeaksForSpeed) {
  const carbon::IntensitySeries series = simulated_series(24 * 10, [](int) { return 360.0; });
  const ForecastTable forecasts = ForecastTable::make(series, nullptr).take();
  CarbonJob job = some_job();
  job.embodied = 1;  // far more than the energy of any pace
  const auto outcome = CarbonSimulation::make(job, series, &forecasts).take().at(50);
  EXPECT_NEAR(outcome.hindsight.time.value, job.work.value, 1);
  EXPECT_NEAR(outcome.best_static.grams, outcome.all_max.grams, 1e-6);
}

TEST(CarbonSimulation, ADeadlineWithinAnIntervalIsKept) {
  const carbon::IntensitySeries series =
      simulated_series(24 * 10, [](int i) { return 200.0 + i % 24; });
  const ForecastTable forecasts = ForecastTable::make(series, nullptr).take();
  CarbonJob job = some_job();
  job.deadline_factor = 1.13;
  job.pause.allowed = true;
  const auto simulation = CarbonSimulation::make(job, series, &forecasts).take();
  for (const std::size_t start : {0U, 33U, 77U}) {
    const StartOutcome outcome = simulation.at(start);
    EXPECT_TRUE(outcome.harpe.in_time);
    EXPECT_LE(outcome.harpe.time.value, 1.13 * job.work.value * (1 + 1e-9));
  }
  EXPECT_FALSE(CarbonSimulation::make({.choices = job.choices}, series, &forecasts).ok());
  job.work = {1e9};
  EXPECT_FALSE(CarbonSimulation::make(job, series, &forecasts).ok());
}

TEST(SimulatedForecasts, KnowsNothingButThePast) {
  carbon::IntensitySeries series =
      simulated_series(24 * 30, [](int i) { return 200.0 + (i * 37 % 101); });
  const ForecastTable one = ForecastTable::make(series, nullptr).take();
  for (std::size_t i = 500; i < series.size(); ++i) series.values[i] = 5;
  const ForecastTable other = ForecastTable::make(series, nullptr).take();
  for (std::size_t ahead = 0; ahead < 150; ++ahead) {
    EXPECT_EQ(one.at(500, 500 + ahead), other.at(500, 500 + ahead));
  }
  EXPECT_EQ(one.recent(500).last, series.values[499]);
}

}  // namespace
}  // namespace harpe::lab
