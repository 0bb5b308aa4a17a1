#include "harpe/plan/policy/plan_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/policy/pipeline_times.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

constexpr int kChoiceStages = 4, kPipelines = 5;
constexpr Seconds kOverhead{0.05};

/// Plans of a job, and their times if stages are slower than planned.
class Planned {
 public:
  Planned()
      : schedule_(*one_f_one_b({.stages = kChoiceStages, .micro_batches = 6})),
        pipeline_(*Pipeline::build(schedule_)),
        profile_(*synthesize({.stages = kChoiceStages, .imbalance = 1.3, .noise = 0})),
        times_(pipeline_, profile_),
        plans_(table(std::vector<double>(kChoiceStages, 1), 30)) {}

  const PlanTable& plans() const { return plans_; }
  const PipelineTimes& times() const { return times_; }

  PlanTable table(const std::vector<double>& factors, int plans) const {
    std::vector<InstructionProfile> entries(profile_.entries().begin(), profile_.entries().end());
    for (InstructionProfile& entry : entries)
      for (OperatingPoint& point : entry.points) point.time = point.time * factors[entry.stage];
    const auto frontier =
        characterize(pipeline_, Profile(std::move(entries)), {.blocking_power = Watts{80}});
    return *PlanTable::build(*frontier, {.plans = plans, .plan = {.effort = Effort::kQuick}});
  }

  /// \param settled  true if measured at all-max
  SlowPipeline slow(int pipeline, std::vector<double> factors, bool settled = true) const {
    SlowPipeline one{.pipeline = pipeline, .factors = std::move(factors), .settled = settled};
    one.fastest = times_.at_all_max(one.factors);
    return one;
  }

  /// Returns the time of a pipeline for the choice, delays included.
  Seconds time(const PlanChoice& choice, int pipeline,
               const std::vector<SlowPipeline>& slow) const {
    const auto found = std::ranges::find(slow, pipeline, &SlowPipeline::pipeline);
    const PlanRef& ref = choice.plan_of[pipeline];
    const PlanTable& from =
        ref.from == PlanRef::From::kOwn && found != slow.end() ? *found->own : plans_;
    const TablePlan& plan =
        ref.from == PlanRef::From::kAllMax ? plans_.all_max() : from.plans()[ref.plan];
    if (found == slow.end()) return times_.at(plan);
    return times_.at(plan, found->factors) + found->outside;
  }

 private:
  Schedule schedule_;
  Pipeline pipeline_;
  Profile profile_;
  PipelineTimes times_;
  PlanTable plans_;
};

const Planned& planned() {
  static const Planned kPlanned;
  return kPlanned;
}

/// Returns pipelines that are slower or faster in random ways, known to a random degree.
std::vector<SlowPipeline> any_slow(std::mt19937_64& random) {
  const auto chance = [&](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  std::uniform_real_distribution<double> factor(0.9, 1.8);
  std::vector<SlowPipeline> slow;
  for (int pipeline = 0; pipeline < kPipelines; ++pipeline) {
    if (chance(0.5)) continue;
    std::vector<double> factors(kChoiceStages, chance(0.3) ? factor(random) : 1.0);
    if (chance(0.5)) factors[random() % kChoiceStages] = factor(random);
    slow.push_back(planned().slow(pipeline, std::move(factors), chance(0.7)));
    if (chance(0.2)) slow.back().outside = slow.back().fastest * 0.2;
    if (chance(0.2)) slow.back().doubted = slow.back().fastest * 0.1;
    slow.back().at_all_max = chance(0.1);
    if (chance(0.2))
      slow.back().own = std::make_shared<PlanTable>(planned().table(slow.back().factors, 8));
  }
  return slow;
}

TEST(PlanChoice, NeverMakesAJobSlowerThanItsObjective) {
  constexpr std::uint64_t kSeed = 20261122;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const Seconds fastest = planned().plans().plans().front().time;
  constexpr int kRuns = HARPE_UNDER_SANITIZERS ? 40 : 400;
  for (int i = 0; i < kRuns; ++i) {
    SCOPED_TRACE(i);
    const std::vector<SlowPipeline> slow = any_slow(random);
    const double slowdown = i % 4 == 0 ? 0.1 : 0;
    Objective objective{.kind = Objective::Kind::kSlowdown, .value = slowdown};
    if (i % 4 == 1)
      objective = {.kind = Objective::Kind::kDeadline, .value = (fastest * 1.05 + kOverhead).value};
    Seconds allowed = i % 4 == 1 ? fastest * 1.05 : fastest * (1 + slowdown);
    for (const SlowPipeline& one : slow) allowed = std::max(allowed, one.least_time());
    const PlanChoice choice =
        choose_plans(planned().plans(), objective, kOverhead, kPipelines, slow);
    ASSERT_EQ(choice.plan_of.size(), std::size_t{kPipelines});
    for (int pipeline = 0; pipeline < kPipelines; ++pipeline)
      EXPECT_LE(planned().time(choice, pipeline, slow), allowed * (1 + 1e-6)) << pipeline;
  }
}

TEST(PlanChoice, AStragglerElsewhereIsWaitedForWithTheLeastEnergy) {
  const Seconds wait_until = planned().plans().all_max().time * 1.2;
  for (const Objective& objective :
       {Objective{Objective::Kind::kStragglerFactor, 1.2},
        Objective{Objective::Kind::kStragglerTime, wait_until.value}}) {
    SCOPED_TRACE(text_of(objective));
    const PlanChoice choice = choose_plans(planned().plans(), objective, kOverhead, kPipelines, {});
    EXPECT_NEAR(choice.wait_until.value, wait_until.value, 1e-9);
    EXPECT_EQ(choice.plan_of.front().plan, planned().plans().for_waiting_until(wait_until));
    // A pipeline of the job itself that takes even longer is waited for as well.
    const std::vector<SlowPipeline> slow = {
        planned().slow(1, std::vector<double>(kChoiceStages, 1.5))};
    EXPECT_EQ(choose_plans(planned().plans(), objective, kOverhead, kPipelines, slow).wait_until,
              slow.front().fastest);
  }
}

TEST(PlanChoice, AStragglerThatIsFasterThanAllPlansIsNone) {
  for (const Objective& objective : {Objective{Objective::Kind::kStragglerFactor, 0.5},
                                     Objective{Objective::Kind::kStragglerTime, 0.001}}) {
    const Status possible = check_objective(planned().plans(), objective, kOverhead, kPipelines);
    ASSERT_FALSE(possible.ok()) << text_of(objective);
    EXPECT_EQ(possible.error().code, ErrorCode::kInfeasible);
  }
  EXPECT_TRUE(check_objective(planned().plans(), {Objective::Kind::kStragglerFactor, 1.2},
                              kOverhead, kPipelines)
                  .ok());
}

/// If a lower clock is faster, no pipeline waits for a healthy pipeline at all-max.
TEST(PlanChoice, SlowdownsAreRelativeToTheFastestIterationNotToAllMax) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < 2; ++stage)
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward})
      entries.push_back({.stage = stage,
                         .chunk = 0,
                         .kind = kind,
                         .points = {{Megahertz{1000}, Seconds{1.5}, Joules{100}},
                                    {Megahertz{1200}, Seconds{1}, Joules{150}},
                                    {Megahertz{1400}, Seconds{1.1}, Joules{200}}}});
  const Pipeline pipeline = *Pipeline::build(*one_f_one_b({.stages = 2, .micro_batches = 3}));
  const auto frontier =
      characterize(pipeline, Profile(std::move(entries)), {.blocking_power = Watts{80}});
  ASSERT_TRUE(frontier.ok()) << frontier.error().text();
  const PlanTable plans = *PlanTable::build(*frontier, {.plans = 10, .plan = {}});
  const Seconds fastest = plans.plans().front().time;
  ASSERT_LT(fastest, plans.all_max().time);
  EXPECT_EQ(choose_plans(plans, {}, kOverhead, 2, {}).objective_time, fastest);
  const SlowPipeline declared{
      .pipeline = 1, .factors = {1, 1}, .fastest = plans.all_max().time, .settled = true};
  const PlanChoice choice = choose_plans(plans, {}, kOverhead, 2, std::vector{declared});
  EXPECT_EQ(choice.wait_until, fastest);
  EXPECT_EQ(choice.plan_of[1], (PlanRef{PlanRef::From::kShared, 0}));
}

TEST(PlanChoice, WhatIsDoubtedMayHideInTheOverhead) {
  SlowPipeline slow = planned().slow(1, {1, 1, 1, 1.2});
  const Seconds wait_until = slow.fastest * 1.5;
  const auto end = [&](double doubted, double overhead) {
    slow.doubted = slow.fastest * doubted;
    return end_of_computations(slow, wait_until, slow.fastest * overhead) / slow.fastest;
  };
  EXPECT_NEAR(end(0, 0.2), 1.5, 1e-9);
  EXPECT_NEAR(end(0.1, 0), 1.5, 1e-9) << "no overhead that it could hide in";
  EXPECT_NEAR(end(0.1, 0.2), 1.4, 1e-9);
  EXPECT_EQ(end(0.5, 0.2001), end(0.5, 0.2004)) << "what is measured anew changes no plan";
  EXPECT_NEAR(end(0.3, 0.2), 1.3, 1e-9);
  EXPECT_NEAR(end(2, 2), 1, 1e-9) << "no sooner than it can be";
  slow.outside = slow.fastest * 0.3;
  EXPECT_NEAR(end(0.1, 0.2), 1.1, 1e-9);
}

TEST(PlanChoice, HealthyPipelinesTakeAllTheTimeThatTheSlowestLeavesThem) {
  const std::vector<SlowPipeline> slow = {planned().slow(1, {1, 1, 1, 1.4})};
  const PlanChoice choice = choose_plans(planned().plans(), {}, kOverhead, kPipelines, slow);
  EXPECT_EQ(choice.wait_until, slow[0].fastest);
  const auto next = choice.plan_of[0].plan + 1;
  EXPECT_LE(planned().plans().plans()[choice.plan_of[0].plan].time, choice.wait_until);
  ASSERT_LT(next, planned().plans().plans().size());
  EXPECT_GT(planned().plans().plans()[next].time, choice.wait_until);
}

/// Each of two pipelines has the slowest times of two stages, and the profile has all four of them.
TEST(PlanChoice, IfAllPipelinesAreFasterThanTheProfileNoOneTakesItsTime) {
  std::vector<SlowPipeline> slow = {planned().slow(0, {1, 0.7, 1, 0.7}),
                                    planned().slow(1, {0.7, 1, 0.7, 1})};
  const Seconds longest = std::max(slow[0].fastest, slow[1].fastest);
  ASSERT_LT(longest, planned().plans().plans().front().time * 0.95);
  for (SlowPipeline& one : slow)
    one.own = std::make_shared<const PlanTable>(planned().table(one.factors, 30));
  for (const double slowdown : {0.0, 0.05}) {
    const PlanChoice choice =
        choose_plans(planned().plans(), {.value = slowdown}, kOverhead, 2, slow);
    for (int pipeline = 0; pipeline < 2; ++pipeline)
      EXPECT_LE(planned().time(choice, pipeline, slow), longest * (1 + slowdown) * (1 + 1e-6));
    EXPECT_GE(choice.wait_until, longest);
  }
}

TEST(PlanChoice, OneThatIsNotMeasuredYetHurriesAndNoOneWaitsForIt) {
  const std::vector<SlowPipeline> slow = {planned().slow(2, {1, 1, 1, 1.4}, false)};
  const PlanChoice choice = choose_plans(planned().plans(), {}, kOverhead, kPipelines, slow);
  EXPECT_EQ(choice.wait_until, choice.objective_time);
  EXPECT_EQ(choice.plan_of[2].from, PlanRef::From::kAllMax);
  EXPECT_EQ(choice.plan_of[0].from, PlanRef::From::kShared);
}

TEST(PlanChoice, ASlowStageIsNotTreatedAsASlowPipeline) {
  // The shared plans leave no slack for the slow stage.
  std::vector<SlowPipeline> slow = {planned().slow(2, {1.3, 1, 1, 1})};
  PlanChoice choice = choose_plans(planned().plans(), {}, kOverhead, kPipelines, slow);
  EXPECT_EQ(choice.plan_of[2].from, PlanRef::From::kAllMax);
  slow[0].own = std::make_shared<PlanTable>(planned().table(slow[0].factors, 20));
  choice = choose_plans(planned().plans(), {}, kOverhead, kPipelines, slow);
  EXPECT_EQ(choice.plan_of[2].from, PlanRef::From::kOwn);
  // A pipeline that is equally slow in all its stages runs the same plans, only slower.
  slow = {planned().slow(2, {1.3, 1.3, 1.3, 1.3})};
  choice = choose_plans(planned().plans(), {}, kOverhead, kPipelines, slow);
  EXPECT_EQ(choice.plan_of[2].from, PlanRef::From::kShared);
  EXPECT_LT(planned().plans().plans()[choice.plan_of[2].plan].energy,
            planned().plans().all_max().energy);
}

TEST(PlanChoice, UnderAPowerCapNoOneDrawsMoreToCatchUp) {
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const std::vector<TablePlan>& plans = planned().plans().plans();
  const double least = (plans.back().energy / plans.back().time).value * kPipelines;
  const double most = (plans.front().energy / plans.front().time).value * kPipelines;
  std::uniform_real_distribution<double> caps(least, most);
  constexpr int kRuns = HARPE_UNDER_SANITIZERS ? 20 : 200;
  for (int i = 0; i < kRuns; ++i) {
    const Objective objective{.kind = Objective::Kind::kPowerCap, .value = caps(random)};
    const PlanChoice choice =
        choose_plans(planned().plans(), objective, kOverhead, kPipelines, any_slow(random));
    double power = 0;
    for (const PlanRef& ref : choice.plan_of) {
      ASSERT_EQ(ref.from, PlanRef::From::kShared);
      power += (plans[ref.plan].energy / plans[ref.plan].time).value;
    }
    EXPECT_LE(power, objective.value * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace harpe::plan
