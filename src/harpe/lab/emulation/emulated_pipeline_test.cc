// One pipeline of an emulated cluster.

#include "harpe/lab/emulation/emulated_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harpe/base/hashed_random.h"
#include "harpe/lab/emulation/emulation_testing.h"
#include "harpe/plan/frontier/predict.h"

namespace harpe::lab {
namespace {

EmulatedPipeline::Run run_once(EmulatedPipeline& emulated, const plan::TablePlan& plan,
                               EmulatedPipeline::Conditions conditions = {}) {
  conditions.plan = emulated.add(plan).value();
  auto clocks = emulated.steady_clocks(conditions.plan);
  EmulatedPipeline::Run run;
  emulated.run(conditions, clocks, run);
  return run;
}

/// Returns the energy of all GPUs of the pipeline until the end of its iteration.
Joules energy_of(const EmulatedPipeline& emulated, const EmulatedPipeline::Run& run) {
  Joules sum{0};
  for (std::size_t stage = 0; stage < emulated.stages(); ++stage)
    sum += run.effective[stage] + emulated.blocking_power(stage) * run.makespan;
  return sum * PlannedPipeline::kGpusPerStage;
}

TEST(EmulatedPipeline, WithoutNoiseTakesWhatPredictSays) {
  // Latencies: zero, shorter than all instructions, longer than most of them.
  for (const double latency : {0.0, 0.01, 0.15}) {
    const PlannedPipeline planned(LatencyByClock(Seconds{latency}), {1.1, 1.3});
    EmulatedPipeline emulated = planned.emulated();
    ASSERT_GE(planned.table.plans().size(), 2U);
    for (const plan::TablePlan& plan : planned.table.plans()) {
      const auto run = run_once(emulated, plan);
      const Plan whole =
          planned.frontier
              .plan_of_clocks(plan.clocks, Seconds{0}, {.switch_latency = planned.latency})
              .value();
      const auto real =
          predict(whole, planned.frontier.profile(), {.switch_latency = planned.latency}).value();
      EXPECT_NEAR(run.makespan / real.iteration_time, 1, 1e-9) << latency;
      EXPECT_NEAR(energy_of(emulated, run) / real.iteration_energy, 1, 1e-9) << latency;
    }
  }
}

TEST(EmulatedPipeline, ASlowdownOfAllStagesSlowsTheIterationAsMuch) {
  const PlannedPipeline planned;
  EmulatedPipeline emulated = planned.emulated();
  const auto usual = run_once(emulated, planned.table.all_max());
  const auto slow = run_once(emulated, planned.table.all_max(), {.slowdown = 1.2});
  EXPECT_NEAR(slow.makespan / usual.makespan, 1.2, 1e-12);
  EXPECT_NEAR(energy_of(emulated, slow) / energy_of(emulated, usual), 1.2, 1e-12);
}

TEST(EmulatedPipeline, EnergyIsTheIntegralOfPower) {
  // Each stage draws energy / time during an instruction, and blocking power in between.
  const PlannedPipeline planned(LatencyByClock(0.01_s), {1.2});
  EmulatedPipeline emulated = planned.emulated();
  EmulatedPipeline::Noise noise;
  emulated.draw(7, 0.05, noise);
  const auto run = run_once(emulated, planned.table.plans().back(), {.noise = &noise});
  double integral = 0;
  for (std::size_t stage = 0; stage < emulated.stages(); ++stage) {
    double now = 0;
    const double waiting = emulated.blocking_power(stage).value;
    for (std::size_t i = emulated.first_of_stage(stage); i < emulated.first_of_stage(stage + 1);
         ++i) {
      const double start = run.end[i] - run.time[i];
      ASSERT_GE(start, now - 1e-12);
      integral += waiting * (start - now) + run.energy[i] / run.time[i] * (run.end[i] - start);
      now = run.end[i];
    }
    integral += waiting * (run.makespan.value - now);
  }
  integral *= PlannedPipeline::kGpusPerStage;
  EXPECT_NEAR(integral / energy_of(emulated, run).value, 1, 1e-9);
}

TEST(EmulatedPipeline, NoiseHasItsDeviationAndDependsOnItsNumberAlone) {
  const PlannedPipeline planned;
  const EmulatedPipeline emulated = planned.emulated();
  EmulatedPipeline::Noise noise, same;
  double sum = 0, squares = 0, fourth = 0, product = 0;
  int count = 0;
  for (std::uint64_t draws = 0; draws < 4000; ++draws) {
    emulated.draw(mixed(draws), 0.1, noise);
    for (std::size_t i = 0; i < noise.time.size(); ++i) {
      for (const double factor : {noise.time[i], noise.energy[i]}) {
        const double z = (factor - 1) / 0.1;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
        ++count;
      }
      product += (noise.time[i] - 1) * (noise.energy[i] - 1) / 0.01;
    }
  }
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 0.01);
  EXPECT_NEAR(fourth / count, 3, 0.2);  // 2.85 for the sum of eight uniform numbers
  EXPECT_NEAR(2 * product / count, 0, 0.01);
  emulated.draw(mixed(3999), 0.1, same);
  EXPECT_EQ(same.time, noise.time);
  EXPECT_EQ(same.energy, noise.energy);
  emulated.draw(mixed(3998), 0.1, same);
  EXPECT_NE(same.time, noise.time);
}

TEST(EmulatedPipeline, RefusesAPlanOfAnotherPipeline) {
  const PlannedPipeline planned;
  EmulatedPipeline emulated = planned.emulated();
  plan::TablePlan other = planned.table.all_max();
  other.clocks.back().pop_back();
  EXPECT_FALSE(emulated.add(other).ok());
  other.clocks.pop_back();
  EXPECT_FALSE(emulated.add(other).ok());
}

}  // namespace
}  // namespace harpe::lab
