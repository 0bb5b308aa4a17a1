// Jobs whose server or training restarts.

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

void restart_server(Played& played) {
  const Status restarted = played.restart_server();
  ASSERT_TRUE(restarted.ok()) << restarted.error().text();
}

/// Registers all ranks but the last.
void register_most(Played& played) {
  std::vector<RankCoordinates> places = played.training.places();
  places.pop_back();
  for (const RankCoordinates coordinates : places) {
    ASSERT_TRUE(
        played.job.register_rank(played.training.registration(coordinates), played.training.now())
            .ok());
  }
}

double profiled(const Job& job) {
  const auto profiling = job.status().profiling;
  return profiling ? profiling->fraction : 0;
}

bool profile_until(Played& played, double fraction) {
  return played.training.run_until(
      played.job, [&] { return profiled(played.job) >= fraction; }, 500);
}

TEST(JobRestart, GoesOnFromItsSnapshotAtAnyMoment) {
  const JobSpec spec = small_spec();
  for (const int cut : {0, 1, 9, 40, 90, 140, 200, 300}) {
    SCOPED_TRACE(cut);
    Played played(spec);
    ASSERT_TRUE(played.training.register_all(played.job).ok());
    played.training.run(played.job, cut);
    const std::uint64_t version = played.job.version();
    restart_server(played);
    ASSERT_TRUE(played.running());
    played.settle();
    EXPECT_GT(played.job.version(), version);
    EXPECT_LT(played.training.last().energy, played.training.iterations()[0].energy * 0.93);
  }
}

TEST(JobRestart, FollowsTrainingThatStartsAgain) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  auto old = played.training.registration({0, 0, 0});
  old.start = played.job.register_rank(old, played.training.now())->start;
  played.training.start_again("second", 3);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning);
  const auto refused = played.job.register_rank(old, played.training.now());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  played.settle();
  played.settle();  // includes a look at all-max
  EXPECT_EQ(played.training.last().versions.front(), played.job.version());
}

TEST(JobRestart, TrainingThatStartsAgainGoesOnProfilingWhereItWas) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(profile_until(played, 0.6));
  const double before = profiled(played.job);
  played.training.start_again("second", 0);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kProfiling);
  EXPECT_EQ(profiled(played.job), before);
  // Training warms up at all-max.
  played.training.run(played.job, 1);
  EXPECT_NEAR(played.training.last().time.value, played.training.iterations()[0].time.value, 1e-9);
  ASSERT_TRUE(played.running());
  played.settle();
  EXPECT_LT(played.training.last().energy, played.training.iterations()[0].energy * 0.93);
}

TEST(JobRestart, BothServerAndTrainingMayStartAgainWhileProfiling) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(profile_until(played, 0.6));
  const double before = profiled(played.job);
  played.training.start_again("second", 0);
  register_most(played);
  EXPECT_EQ(played.job.phase(), JobPhase::kRegistering);
  restart_server(played);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(profiled(played.job), before);
  ASSERT_TRUE(played.running());
}

TEST(JobRestart, PlansThatWereBeingMadeAreMadeWhenTrainingStartsAgain) {
  for (const bool server_too : {false, true}) {
    SCOPED_TRACE(server_too);
    Played played(small_spec());
    ASSERT_TRUE(played.training.register_all(played.job).ok());
    ASSERT_TRUE(played.training.run_until(
        played.job, [&] { return played.job.phase() == JobPhase::kCharacterizing; }, 500));
    played.training.start_again("second", 0);
    register_most(played);
    if (server_too) restart_server(played);
    ASSERT_TRUE(played.training.register_all(played.job).ok());
    EXPECT_EQ(played.job.phase(), JobPhase::kCharacterizing);
    ASSERT_TRUE(
        played.training.run_until(played.job, [&] { return played.job.plans() != nullptr; }, 10));
    played.settle();
    EXPECT_LT(played.training.last().energy, played.training.iterations()[0].energy * 0.93);
  }
}

TEST(JobRestart, PlansForAnEarlierStartOfTrainingAreNotTaken) {
  JobSpec spec = small_spec();
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  Job job = *Job::create(spec, Seconds{1000});
  PlayedTraining training(spec, *spec.profile, {});
  const auto request = [&] {
    for (const RankCoordinates coordinates : training.places())
      EXPECT_TRUE(job.register_rank(training.registration(coordinates), Seconds{1000}).ok());
    const std::optional<CharacterizeRequest> asked = job.take_effects().characterize;
    EXPECT_TRUE(asked.has_value());
    return asked ? asked->ticket : 0;
  };
  const auto frontier = characterize(spec.schedule, *spec.profile, {.blocking_power = Watts{80}});
  const auto table =
      plan::PlanTable::build(*frontier, {.plans = 5, .plan = {.effort = Effort::kQuick}});
  const std::uint64_t first = request();
  training.start_again("second", 0);
  const std::uint64_t second = request();
  job.characterized(first, *table, Seconds{1001});
  EXPECT_EQ(job.phase(), JobPhase::kCharacterizing);
  job.characterized(second, *table, Seconds{1001});
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
}

TEST(JobRestart, BetterPlansAreAskedForAgainWhenTheServerStartsAgain) {
  JobSpec spec = small_spec();
  spec.plans = 4;
  Played played(spec);
  played.training.better_plans_take = 20;
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  const std::string first = played.job.plans()->json();
  restart_server(played);
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning);
  EXPECT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.plans()->json() != first; }, 40));
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning);
}

TEST(JobRestart, FollowsEnergyAlsoWhereIterationsAreCountedAnew) {
  Played played(small_spec());
  played.training.start_again("first", 5000);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  restart_server(played);
  played.training.start_again("first", 0);  // the same processes
  played.training.change_report = [](IterationReport& report) {
    report.energy = report.energy * 1.2;
    for (InstructionTotals& totals : report.instructions) totals.energy = totals.energy * 1.2;
  };
  EXPECT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kCharacterizing; }, 120));
}

TEST(JobRestart, WhatHasChangedSurvivesANewStart) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(played.plans_anew_when_slower(1));
  played.training.start_again("second", 0);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kCharacterizing);
  ASSERT_TRUE(played.running());
  played.settle();
  played.settle();
  EXPECT_LT(played.training.last().time, played.training.last().all_max_time * 1.005);
  EXPECT_LT(played.training.last().energy, played.training.last().all_max_energy * 0.95);
}

/// The factors of stragglers are relative to the profile, which changes with them.
TEST(JobRestart, WhilePlansForAnotherProfileAreMadeChangesNoStraggler) {
  Played played(small_spec(4));
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  for (int stage = 0; stage < 4; ++stage) played.training.slow[{1, stage}] = 1.45;
  played.training.run(played.job, 60);
  for (const int pipeline : {0, 2, 3}) played.training.slow[{pipeline, 2}] = 1.25;
  const auto plans = [&] { return played.job.phase() == JobPhase::kCharacterizing; };
  ASSERT_TRUE(played.training.run_until(played.job, plans, 30));
  ASSERT_TRUE(played.restart_server().ok());
  const auto factor = [&] {
    EXPECT_EQ(played.job.status().stragglers.size(), 1U);
    return played.job.status().stragglers.front().factor;
  };
  played.training.run(played.job, 3);
  ASSERT_EQ(played.job.phase(), JobPhase::kStraggling);
  const double before_measured = factor();
  played.training.run(played.job, 80);
  EXPECT_NEAR(before_measured, factor(), 0.01);
  EXPECT_LT(played.slowdown(60), 0.005);
}

}  // namespace
}  // namespace harpe::training
