// Tuners over a job in simulated time.

#include "harpe/zeus/tuning/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "harpe/zeus/power_limit/power_limits_testing.h"
#include "harpe/zeus/tuning/job_tuning.h"
#include "harpe/zeus/tuning/simulated_job_testing.h"

namespace harpe::zeus {
namespace {

std::unique_ptr<Tuner> tuner_for(SimulatedJob& job, TunerOptions options) {
  return Tuner::make(std::move(options), job, job).take();
}
constexpr Selector kBound{.kind = Selector::Kind::kEnergy, .most_slowdown = 1.1};

TEST(Tuner, FindsTheCheapestSettingWithinTheBoundAndSaysTruly) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedJob job(seed);
    auto tuner = tuner_for(job, {.selector = kBound});
    tuner->start();
    job.run(*tuner, 1000);
    job.end(*tuner);
    const TuningResult result = tuner->result();
    EXPECT_TRUE(result.failure.empty()) << result.failure;
    ASSERT_TRUE(result.decided && result.choice);
    const double limit = result.knob[*result.choice];
    // 240 W is 9.9 % slower. A mean with an error of 0.5 % may exceed 10 %.
    EXPECT_GE(limit, 240);
    EXPECT_LE(limit, 260);
    EXPECT_TRUE(job.setting() == limit || job.setting() == 300) << "or in a look";
    const StepCost& highest = result.costs[0];
    const StepCost& chosen = result.costs[*result.choice];
    EXPECT_NEAR(chosen.energy.value, job.energy_of(limit), 0.01 * chosen.energy.value);
    EXPECT_NEAR(highest.energy.value, job.energy_of(300), 0.02 * highest.energy.value);
    EXPECT_GT(chosen.steps, 400) << "measured for as long as it was in force";
    double saved = 0;
    for (const auto& [at, steps] : job.steps_at) {
      saved += steps * (job.energy_of(300) - job.energy_of(at));
    }
    EXPECT_NEAR(result.saving.saved.value, saved, result.saving.error.value + 0.02 * saved);
    EXPECT_LT(result.saving.error.value, 0.5 * result.saving.saved.value);
    EXPECT_NEAR(result.saving.at_highest.value, 1000 * job.energy_of(300),
                0.1 * result.saving.at_highest.value);
  }
}

// Of 72,000 such jobs, 10 were more than 5 % above the best, by one setting each (seeds 42 and
// 1086979370 have one): windows erred by 1 %, or the trials reached their limit of steps first. So
// one such job in a run of the test is accepted, two are not (4 runs in 100,000 by chance).
TEST(Tuner, OfManyJobsTheChoiceIsNearTheBestOneAllowed) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto between = [&random](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 10'001) / 10'000;
  };
  constexpr int kJobs = 60;
  int far_from_best = 0;
  double excess = 0;
  for (int i = 0; i < kJobs; ++i) {
    SimulatedJob job(static_cast<unsigned>(random()));
    job.knee = between(150, 330);
    job.exponent = between(0.2, 1.6);
    job.most_power = between(200, 330);
    const double bound = between(1.01, 1.2);
    SCOPED_TRACE(std::to_string(job.knee) + " W, exponent " + std::to_string(job.exponent) + ", " +
                 std::to_string(job.most_power) + " W, bound " + std::to_string(bound));
    auto tuner =
        tuner_for(job, {.selector = {.kind = Selector::Kind::kEnergy, .most_slowdown = bound}});
    tuner->start();
    job.run(*tuner, 900);
    job.end(*tuner);
    // By true values, among settings that keep the bound by more than the error of windows.
    const auto slowdown = [&](double limit) { return job.time_of(limit) / job.time_of(300); };
    double best = job.energy_of(300);
    for (const double limit : job.knob().settings()) {
      if (slowdown(limit) <= bound - 0.01) best = std::min(best, job.energy_of(limit));
    }
    const TuningResult result = tuner->result();
    ASSERT_TRUE(result.choice.has_value());
    const double chosen = result.knob[*result.choice];
    EXPECT_LE(slowdown(chosen), bound + 0.01);
    EXPECT_LE(job.energy_of(chosen), 1.1 * best);
    far_from_best += job.energy_of(chosen) > 1.05 * best ? 1 : 0;
    excess += job.energy_of(chosen) / best - 1;
  }
  EXPECT_LE(far_from_best, 1);
  EXPECT_LE(excess, 0.005 * kJobs) << "mean at most 0.5 %";
}

TEST(Tuner, EpochsShorterThanAWindowLoseNothing) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 1000, 7);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  ASSERT_TRUE(result.decided && result.choice);
  EXPECT_EQ(result.epochs, 142);
  const double limit = result.knob[*result.choice];
  EXPECT_GE(limit, 240);
  EXPECT_LT(limit, 300);
  // The cost of a step includes no validation.
  EXPECT_NEAR(result.costs[*result.choice].time.value, job.time_of(limit), 0.01 * job.base);
}

// A pause ends the window of a look before its energy is known.
TEST(Tuner, PausesInLooksLoseNoWindow) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedJob job(seed);
    auto tuner = tuner_for(job, {.selector = kBound});
    tuner->start();
    for (int i = 0; i < 150; ++i) {
      job.run(*tuner, 7);
      job.idle(*tuner, 2);
    }
    job.end(*tuner);
    const TuningResult result = tuner->result();
    EXPECT_TRUE(result.failure.empty()) << result.failure;
    ASSERT_TRUE(result.decided && result.choice);
    EXPECT_GT(job.steps_at[300], 100) << "of all looks";
  }
}

TEST(Tuner, AJobThatEndsEarlySaysTheBestSoFar) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 30);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_FALSE(result.decided);
  EXPECT_EQ(result.choice, 0U);
  EXPECT_EQ(result.steps, 30);
}

TEST(Tuner, AJobWithoutStepsHasNothingToSay) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.end(*tuner);
  EXPECT_FALSE(tuner->result().choice.has_value());
}

TEST(Tuner, AnEarlierRunsProfileSavesTheProfiling) {
  SimulatedJob first;
  auto measured = tuner_for(first, {.selector = kBound});
  measured->start();
  first.run(*measured, 400);
  first.end(*measured);
  SimulatedJob job(2);
  auto tuner = tuner_for(job, {.selector = kBound, .known = measured->result().measurements});
  tuner->start();
  const double chosen = job.setting();
  job.run(*tuner, 200);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_TRUE(result.from_profile);
  EXPECT_EQ(result.profilings, 0);
  EXPECT_LT(chosen, 300);
  EXPECT_GE(job.setting(), chosen);
  EXPECT_LE(job.setting(), chosen + 10) << "one that breaks the bound by a hair is left";
  EXPECT_GT(result.saving.saved.value, 0);
}

TEST(Tuner, AJobThatSlowsDownForGoodIsProfiledAgain) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 1700);
  EXPECT_EQ(tuner->result().profilings, 1);
  job.base = 0.3;
  job.run(*tuner, 600);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_EQ(result.profilings, 2);
  EXPECT_TRUE(result.decided);
  EXPECT_NEAR(result.costs[0].time.value, 0.3, 0.01);
}

TEST(Tuner, ShortStepsThatAreSeenInTicksAreNoDrift) {
  SimulatedJob job;
  job.base = 0.03;
  job.look_ns = 5'000'000;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 4000);
  job.end(*tuner);
  EXPECT_EQ(tuner->result().profilings, 1);
  EXPECT_GT(tuner->result().saving.saved.value, 0);
}

TEST(Tuner, ASettingThatBreaksItsPromiseIsLeftForAHigherOne) {
  SimulatedJob job;
  // 200 W is 20.4 % slower, but a window measured 16.5 %. 220 W is 14.8 % slower.
  const std::vector<Measurement> known = {{300, {0.2}, {56}}, {200, {0.2 * 1.165}, {46}}};
  auto tuner = tuner_for(
      job, {.selector = {.kind = Selector::Kind::kEnergy, .most_slowdown = 1.17}, .known = known});
  tuner->start();
  EXPECT_EQ(job.setting(), 200);
  job.run(*tuner, 800);
  job.end(*tuner);
  EXPECT_EQ(job.setting(), 220);
  const TuningResult result = tuner->result();
  EXPECT_EQ(result.knob[result.choice.value()], 220);
}

TEST(Tuner, ATrialThatIsEndedLeavesTheBestSettingKnown) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 60);  // in the window of a third setting or so
  const double before = job.setting();
  tuner->end_trials("the file of steps was removed", true);
  const double best = job.setting();
  job.run(*tuner, 60);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_TRUE(result.decided && result.choice);
  EXPECT_EQ(result.knob[*result.choice], best);
  EXPECT_LE(job.time_of(best), 1.1 * job.time_of(300));
  EXPECT_NE(before, 300) << "a setting was being tried";
  ASSERT_EQ(result.trials_ended.size(), 1U);
  EXPECT_EQ(result.trials_ended[0], "the file of steps was removed");
  EXPECT_EQ(result.profilings, 1);
}

TEST(Tuner, StepsThatAreNotTimedLeaveTheSettingAndClaimByPowerAlone) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = {.kind = Selector::Kind::kEnergy}});
  tuner->start();
  job.run(*tuner, 700);
  const double claimed = tuner->result().saving.saved.value;
  const double chosen = job.setting();
  tuner->end_trials("steps arrive in bursts", false);
  const int sets = job.sets;
  // Thirty million lines.
  for (int i = 0; i < 1000; ++i) tuner->on({StepEvent::Kind::kStep, {}});
  job.run(*tuner, 300);
  job.end(*tuner);
  EXPECT_EQ(job.setting(), chosen);
  EXPECT_LE(job.sets, sets + 1);
  const Saving saving = tuner->result().saving;
  const double more = 300 * (job.energy_of(300) - job.energy_of(chosen));
  EXPECT_NEAR(saving.saved.value, claimed + more, 0.1 * more + saving.error.value);
  EXPECT_LT(saving.error.value, 0.5 * saving.saved.value);
}

TEST(Tuner, ATrialWithoutStepsEndsAndSaysSo) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 30);
  ASSERT_FALSE(tuner->result().decided);
  job.idle(*tuner, 59);
  EXPECT_FALSE(tuner->result().decided);
  job.idle(*tuner, 3);
  const TuningResult result = tuner->result();
  EXPECT_TRUE(result.decided);
  ASSERT_EQ(result.trials_ended.size(), 1U);
  EXPECT_EQ(result.trials_ended[0], "no step was seen for 60 s while settings were tried");
}

TEST(Tuner, TimeBeforeTheRunUsesNoEnergy) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.idle(*tuner, 5);
  tuner->end_trials("steps arrive in bursts", false);  // before the first step
  job.idle(*tuner, 60);
  job.end(*tuner);
  EXPECT_NEAR(tuner->result().saving.at_highest.value, job.joules(), 0.01 * job.joules());
}

TEST(Tuner, TheEndOfAnEpochIsNoSilence) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 30, 30);
  job.idle(*tuner, 600);
  EXPECT_FALSE(tuner->result().decided);
  EXPECT_TRUE(tuner->result().trials_ended.empty());
}

TEST(Tuner, WhatCannotBeSetEndsTheTuningAndSaysWhy) {
  SimulatedJob job;
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 15);
  job.refuses = true;
  job.run(*tuner, 300);
  job.end(*tuner);
  EXPECT_EQ(tuner->result().failure, "the lease has ended");
  EXPECT_EQ(job.setting(), 300);
}

TEST(Tuner, OneSettingIsMeasured) {
  SimulatedJob job(1, 295);
  ASSERT_FALSE(job.knob().can_choose());
  auto tuner = tuner_for(job, {.selector = kBound});
  tuner->start();
  job.run(*tuner, 100);
  job.end(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_EQ(result.choice, 0U);
  EXPECT_NEAR(result.costs[0].energy.value, job.energy_of(300), 0.5);
  EXPECT_EQ(result.saving.saved.value, 0);
  const auto advice = advise(power_limits({100}, {300}), result.measurements.at(0),
                             {.kind = Selector::Kind::kEnergy});
  ASSERT_TRUE(advice.has_value());
  EXPECT_GT(advice->saving, 0.02);
}

}  // namespace
}  // namespace harpe::zeus
