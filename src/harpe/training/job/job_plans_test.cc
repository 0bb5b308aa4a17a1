// Plans that arrive in two steps: quick ones, then better ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/training/job/make_plans.h"
#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

/// A job with a known profile that waits for its plans, and tables of plans for it.
struct Planned {
  Planned() : spec(spec_of()), job(*Job::create(spec, kNow)) {
    const PlayedTraining training(spec, *spec.profile, {});
    for (const RankCoordinates coordinates : training.places())
      EXPECT_TRUE(job.register_rank(training.registration(coordinates), kNow).ok());
    ticket = job.take_effects().characterize->ticket;
  }

  static JobSpec spec_of() {
    JobSpec spec = small_spec(3);
    spec.profile = truth_of(spec);
    spec.blocking_power = Watts{80};
    return spec;
  }
  plan::PlanTable table(Effort effort, int plans = 10) const {
    const auto frontier =
        characterize(spec.schedule, *spec.profile, {.blocking_power = *spec.blocking_power});
    return *plan::PlanTable::build(*frontier, {.plans = plans, .plan = {.effort = effort}});
  }
  std::string assignments() const {
    std::string text;
    for (int pipeline = 0; pipeline < 3; ++pipeline) {
      for (int stage = 0; stage < 4; ++stage) {
        const std::vector<StageAssignment> all = job.assignments(pipeline, stage);
        for (const Megahertz clock : all.back().clocks) text += std::to_string(clock.value) + " ";
      }
    }
    return text;
  }

  static constexpr Seconds kNow{1000};
  JobSpec spec;
  Job job;
  std::uint64_t ticket = 0;
};

TEST(Plans, QuickOnesAreRunUntilBetterOnesCome) {
  Planned planned;
  Job& job = planned.job;
  const plan::PlanTable quick = planned.table(Effort::kQuick);
  const plan::PlanTable best = plan::PlanTable::merged(quick, planned.table(Effort::kFull));
  job.characterized(planned.ticket, quick, Planned::kNow, true);
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
  const std::uint64_t version = job.version();
  const Joules energy = job.pipelines()[0].energy;
  (void)job.take_effects();

  job.characterized(planned.ticket, best, Planned::kNow);
  const JobEffects effects = job.take_effects();
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
  EXPECT_TRUE(effects.plans);
  EXPECT_TRUE(effects.assignments);
  EXPECT_EQ(job.version(), version + 1);
  EXPECT_LT(job.pipelines()[0].energy, energy);
  EXPECT_EQ(job.plans()->json(), best.json());
}

TEST(Plans, RanksGetWhatAPlanSetsBesideClocks) {
  Planned planned;
  // A kernel schedule that is slower and saves energy, and slow memory on one stage.
  std::vector<InstructionProfile> entries(planned.spec.profile->entries().begin(),
                                          planned.spec.profile->entries().end());
  for (InstructionProfile& entry : entries) {
    for (std::size_t i = entry.points.size(); i-- > 0;) {
      OperatingPoint& point = entry.points[i];
      if (entry.stage == 1) point.knobs.memory_clock = {810};
      point.knobs.label = *Label::of("plain");
      OperatingPoint other = point;
      other.knobs.label = *Label::of("sm12");
      other.time = other.time * 1.02;
      other.energy = other.energy * 0.9;
      entry.points.insert(entry.points.begin() + static_cast<std::ptrdiff_t>(i) + 1, other);
    }
  }
  planned.spec.profile = planned.spec.profile->with_entries(std::move(entries));
  planned.job.characterized(planned.ticket, planned.table(Effort::kQuick), Planned::kNow);

  std::set<std::string> labels;
  for (int stage = 0; stage < 4; ++stage) {
    const StageAssignment plan = planned.job.assignments(0, stage).back();
    ASSERT_EQ(plan.purpose, StageAssignment::Purpose::kPlan);
    ASSERT_EQ(plan.knobs.size(), plan.clocks.size());
    for (const Knobs& knobs : plan.knobs) {
      EXPECT_EQ(knobs.memory_clock.value, stage == 1 ? 810 : 0);
      labels.emplace(knobs.label.text());
    }
  }
  EXPECT_EQ(labels, (std::set<std::string>{"plain", "sm12"}));
}

TEST(Plans, APlanInForceStaysWhereNoneIsBetter) {
  Planned planned;
  Job& job = planned.job;
  const plan::PlanTable quick = planned.table(Effort::kQuick);
  // More plans of the same kind, including the plans in force for the objective and straggler.
  const plan::PlanTable more = plan::PlanTable::merged(quick, planned.table(Effort::kQuick, 5));
  job.characterized(planned.ticket, quick, Planned::kNow, true);
  ASSERT_TRUE(job.set_straggler({.pipeline = 1, .factor = 1.1}, Planned::kNow).ok());
  const std::uint64_t version = job.version();
  const std::string assignments = planned.assignments();
  (void)job.take_effects();

  job.characterized(planned.ticket, more, Planned::kNow);
  EXPECT_EQ(job.phase(), JobPhase::kStraggling);
  EXPECT_EQ(job.version(), version);
  EXPECT_EQ(planned.assignments(), assignments);
  EXPECT_FALSE(job.take_effects().assignments);
  for (const PipelineState& state : job.pipelines())
    EXPECT_TRUE(state.plan.from == plan::PlanRef::From::kAllMax ||
                job.plans()->plans()[state.plan.plan].time == state.time)
        << "by the new table";
}

TEST(Plans, NoneAreTakenTwiceNorAfterAFailure) {
  Planned planned;
  const plan::PlanTable quick = planned.table(Effort::kQuick, 5);
  const plan::PlanTable other = planned.table(Effort::kQuick, 3);
  planned.job.characterized(planned.ticket, quick, Planned::kNow, true);
  planned.job.characterized(planned.ticket, Error::invalid("out of memory"), Planned::kNow);
  EXPECT_EQ(planned.job.phase(), JobPhase::kRunning);
  planned.job.characterized(planned.ticket, other, Planned::kNow);
  EXPECT_EQ(planned.job.plans()->json(), quick.json());
}

/// Returns the response of a worker to a request for additional plans.
plan::PlanTable respond_to(const Planned& planned, const CharacterizeRequest& request) {
  const auto frontier = characterize(planned.spec, *planned_pipeline(planned.spec), request);
  return *make_plans(planned.spec, request, *frontier, Effort::kQuick, planned.spec.plans);
}

TEST(Plans, TheOneForANewObjectiveIsMadeBesideTheOthers) {
  Planned planned;
  Job& job = planned.job;
  job.characterized(planned.ticket, planned.table(Effort::kQuick), Planned::kNow);
  JobEffects effects = job.take_effects();
  ASSERT_EQ(effects.more_plans.size(), 1U) << "the table has none for just its objective";
  job.characterized(effects.more_plans[0].ticket, respond_to(planned, effects.more_plans[0]),
                    Planned::kNow);
  EXPECT_TRUE(job.pipelines()[0].for_objective);
  (void)job.take_effects();

  const std::size_t plans = job.plans()->plans().size();
  ASSERT_TRUE(job.set_objective({Objective::Kind::kSlowdown, 0.0377}, Planned::kNow).ok());
  EXPECT_FALSE(job.pipelines()[0].for_objective) << "the nearest there is, at once";
  effects = job.take_effects();
  ASSERT_EQ(effects.more_plans.size(), 1U);
  EXPECT_FALSE(effects.characterize);
  const CharacterizeRequest request = effects.more_plans[0];
  job.characterized(request.ticket, respond_to(planned, request), Planned::kNow);
  effects = job.take_effects();
  EXPECT_TRUE(effects.plans) << "they are stored";
  EXPECT_TRUE(effects.more_plans.empty());
  EXPECT_TRUE(job.pipelines()[0].for_objective);
  EXPECT_LE(job.plans()->plans().size(), plans + 1);
  EXPECT_TRUE(job.plan_in_force(2).ok());
  EXPECT_EQ(job.plan_in_force(3).error().code, ErrorCode::kNotFound);

  // The objective changes again: the plans for the first objective are not used.
  ASSERT_TRUE(job.set_objective({Objective::Kind::kSlowdown, 0.05}, Planned::kNow).ok());
  const CharacterizeRequest first = job.take_effects().more_plans.at(0);
  ASSERT_TRUE(job.set_objective({Objective::Kind::kSlowdown, 0.06}, Planned::kNow).ok());
  EXPECT_TRUE(job.take_effects().more_plans.empty()) << "one at a time";
  job.characterized(first.ticket, respond_to(planned, first), Planned::kNow);
  EXPECT_FALSE(job.pipelines()[0].for_objective);
  EXPECT_EQ(job.take_effects().more_plans.at(0).objective->value, 0.06);
}

TEST(Plans, ThatCannotBeMadeForAnObjectiveAreNotAskedForAgain) {
  Planned planned;
  Job& job = planned.job;
  job.characterized(planned.ticket, planned.table(Effort::kQuick), Planned::kNow);
  const CharacterizeRequest request = job.take_effects().more_plans.at(0);
  const std::string before = job.plans()->json();
  job.characterized(request.ticket, Error::invalid("out of memory"), Planned::kNow);
  EXPECT_TRUE(job.take_effects().more_plans.empty());
  EXPECT_EQ(job.plans()->json(), before);
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
}

TEST(Plans, WhatStagesDoBesideIsPlannedAndNotAssigned) {
  Planned planned;
  JobSpec spec = planned.spec;
  spec.fixed_times = {.load = std::vector(4, Seconds{0.002}),
                      .reduce = std::vector(4, Seconds{0.05}),
                      .optimizer = {}};
  Job job = *Job::create(spec, Planned::kNow);
  const PlayedTraining training(spec, *spec.profile, {});
  for (const RankCoordinates coordinates : training.places())
    EXPECT_TRUE(job.register_rank(training.registration(coordinates), Planned::kNow).ok());
  const CharacterizeRequest request = *job.take_effects().characterize;
  const auto frontier = characterize(spec, *planned_pipeline(spec), request);
  ASSERT_TRUE(frontier.ok()) << frontier.error().text();
  job.characterized(request.ticket, make_plans(spec, request, *frontier, Effort::kQuick, 10),
                    Planned::kNow);
  ASSERT_EQ(job.phase(), JobPhase::kRunning);
  const auto without = characterize(planned.spec, *planned_pipeline(planned.spec), request);
  EXPECT_GT(frontier->min_time(), without->min_time() + Seconds{0.05});
  for (int stage = 0; stage < 4; ++stage) {
    const StageAssignment newest = job.assignments(0, stage).back();
    EXPECT_EQ(newest.clocks.size(), spec.schedule.lists[stage].size());
    EXPECT_EQ(std::ranges::count(newest.clocks, Megahertz{0}), 0);
  }
}

TEST(Plans, AProfileThatMovesMeanwhileMakesThemOld) {
  JobSpec spec = small_spec();
  spec.plans = 4;
  Played played(spec);
  played.training.better_plans_take = 60;
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(played.plans_anew_when_slower(1));
  const plan::PlanTable* plans = played.job.plans();
  while (played.job.phase() == JobPhase::kCharacterizing) {
    ASSERT_EQ(played.job.plans(), plans);
    played.training.run(played.job, 1);
  }
  EXPECT_NE(played.job.plans(), plans);
  ASSERT_TRUE(played.running());
}

}  // namespace
}  // namespace harpe::training
