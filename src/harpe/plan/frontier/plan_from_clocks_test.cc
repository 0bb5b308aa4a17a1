#include <gmock/gmock.h>

#include <algorithm>

#include "harpe/plan/frontier/plan_from_clocks_testing.h"
#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;

TEST(AtClock, GivesMeasuredPointsAsTheyAre) {
  const Profile profile = test_profile(1);
  for (const OperatingPoint& point : profile.points(0, 0, InstructionKind::kForward)) {
    EXPECT_EQ(at_setting(profile.points(0, 0, InstructionKind::kForward), point.setting()), point);
  }
}

TEST(AtClock, IsLinearInTheInverseOfTheClockBetweenNeighbours) {
  const std::vector<OperatingPoint> points = {{{1000}, {0.3}, {60}}, {{2000}, {0.2}, {90}}};
  const auto point = at_setting(points, {{1500}, {}});
  ASSERT_TRUE(point);
  // 1/1500 lies two thirds of the way from 1/1000 to 1/2000.
  EXPECT_NEAR(point->time.value, 0.3 - 0.1 * 2 / 3, 1e-12);
  EXPECT_NEAR(point->energy.value, 60 + 30.0 * 2 / 3, 1e-12);
}

TEST(AtClock, HoldsTheNearestOutsideTheMeasuredRange) {
  const std::vector<OperatingPoint> points = {{{1000}, {0.3}, {60}}, {{2000}, {0.2}, {90}}};
  EXPECT_EQ(at_setting(points, {{500}, {}})->time.value, 0.3);
  EXPECT_EQ(at_setting(points, {{2500}, {}})->time.value, 0.2);
  EXPECT_EQ(at_setting({}, {{2500}, {}}), std::nullopt);
}

TEST(PlanFromClocks, HasTheMakespanAndTheEnergyOfItsInstructions) {
  const Schedule schedule = must(gpipe({.stages = 2, .micro_batches = 1}));
  const Pipeline pipeline = must(Pipeline::build(schedule));
  const Profile profile = test_profile(2);
  const Megahertz clock{1200};
  const Plan plan = must(
      plan_from_clocks(pipeline, profile, {{clock, clock}, {clock, clock}},
                       {.blocking_power = std::vector<Watts>{{50}, {60}}, .gpus_per_stage = 3}));
  double time = 0;
  double energy = 0;
  for (int stage = 0; stage < 2; ++stage) {
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
      const auto point = *at_setting(profile.points(stage, 0, kind), {clock, {}});
      time += point.time.value;
      energy += point.energy.value;
    }
  }
  const auto busy = [&](int stage) {
    double seconds = 0;
    for (const auto& i : plan.instructions[stage]) seconds += i.time.value;
    return seconds;
  };
  energy += 50 * (time - busy(0)) + 60 * (time - busy(1));  // one runs while the other waits
  EXPECT_NEAR(plan.iteration_time.value, time, 1e-12);
  EXPECT_NEAR(plan.iteration_energy.value, 3 * energy, 1e-9);
  EXPECT_EQ(plan.lower_bound, Joules{0});
  EXPECT_EQ(plan.instructions[1][0].start, plan.instructions[0][0].time);
}

TEST(PlanFromClocks, KeepsScheduleAndTransfers) {
  for (const auto& generator : schedule_generators()) {
    const Schedule schedule = must(generator.make({.stages = 4, .micro_batches = 8, .chunks = 2}));
    const auto is_fused = [](const Instruction& i) {  // for which the profile has no rows
      return i.kind == InstructionKind::kForwardBackward ||
             i.kind == InstructionKind::kRecomputeBackward;
    };
    if (std::ranges::any_of(schedule.lists[0], is_fused)) continue;
    const Transfers transfers = test_transfers(Transfers::Mode::kOverlapped, schedule.parts());
    const Plan plan = test_plan(schedule, transfers, 7);
    const Schedule again = must(schedule_of(plan));
    EXPECT_EQ(again.lists, schedule.lists) << generator.name;
    EXPECT_EQ(again.placement, schedule.placement) << generator.name;
    EXPECT_EQ(plan.transfers, transfers);
    EXPECT_EQ(plan.schedule, schedule.name);
  }
}

TEST(PlanFromClocks, TakesFixedTimesFromTheProfileOrNone) {
  Schedule schedule = must(one_f_one_b({.stages = 1, .micro_batches = 2}));
  schedule.lists[0].insert(schedule.lists[0].begin(),
                           {.kind = InstructionKind::kLoad, .part = 0, .micro_batch = 0});
  schedule.lists[0].push_back({.kind = InstructionKind::kOptimizer});
  const Profile computations = test_profile(1);
  std::vector<InstructionProfile> entries(computations.entries().begin(),
                                          computations.entries().end());
  entries.push_back({0, 0, InstructionKind::kLoad, {{{0}, {0.25}, {20}}}});
  const Pipeline pipeline = must(Pipeline::build(schedule));
  const Megahertz clock{900};
  const Plan plan =
      must(plan_from_clocks(pipeline, Profile(entries), {{clock, clock, clock, clock}}, {}));
  EXPECT_EQ(plan.instructions[0].front().time, Seconds{0.25});
  EXPECT_EQ(plan.instructions[0].front().energy, Joules{20});
  EXPECT_EQ(plan.instructions[0].front().clock, Megahertz{0});
  EXPECT_EQ(plan.instructions[0].back().time, Seconds{0});
}

TEST(PlanFromClocks, NamesEveryClockTheProfileLacks) {
  const Schedule schedule = must(one_f_one_b({.stages = 2, .micro_batches = 1}));
  const Pipeline pipeline = must(Pipeline::build(schedule));
  const std::vector<std::vector<Megahertz>> clocks = {{{1000}, {900}}, {{1500}, {1350}}};
  const std::string errors =
      diagnostics_of(plan_from_clocks(pipeline, test_profile(2), clocks, {}));
  EXPECT_THAT(errors, HasSubstr("lacks stage 0 forward at 1000 MHz"));
  EXPECT_THAT(errors, HasSubstr("lacks stage 1 forward at 1500 MHz"));
}

TEST(PlanFromClocks, InterpolatesOnlyWhenAskedAndOnlyInside) {
  const Schedule schedule = must(one_f_one_b({.stages = 1, .micro_batches = 1}));
  const Pipeline pipeline = must(Pipeline::build(schedule));
  const Profile profile = test_profile(1);
  const Plan plan =
      must(plan_from_clocks(pipeline, profile, {{{1000}, {900}}}, {.interpolate = true}));
  const auto points = profile.points(0, 0, InstructionKind::kForward);
  EXPECT_EQ(plan.instructions[0][0].time, at_setting(points, {{1000}, {}})->time);
  EXPECT_THAT(
      diagnostics_of(plan_from_clocks(pipeline, profile, {{{800}, {900}}}, {.interpolate = true})),
      HasSubstr("at 800 MHz"));
}

TEST(PlanFromClocks, NeedsOneClockForEveryComputation) {
  const Pipeline pipeline =
      must(Pipeline::build(must(one_f_one_b({.stages = 2, .micro_batches = 1}))));
  EXPECT_THAT(diagnostics_of(plan_from_clocks(pipeline, test_profile(2), {{{900}, {900}}}, {})),
              HasSubstr("expected clocks for 2 stages, found 1"));
  EXPECT_THAT(
      diagnostics_of(plan_from_clocks(pipeline, test_profile(2), {{{900}, {900}}, {{900}}}, {})),
      HasSubstr("stage 1: expected 2 clocks"));
  EXPECT_THAT(
      diagnostics_of(plan_from_clocks(pipeline, test_profile(2), {{{900}, {900}}, {{900}, {900}}},
                                      {.blocking_power = std::vector<Watts>(3)})),
      HasSubstr("blocking power"));
}

TEST(ClockChanges, CountsChangesOfEachStageAndThatToTheNextIteration) {
  Plan plan = test_plan();
  for (auto& list : plan.instructions) {
    for (auto& i : list) i.clock = {900};
  }
  EXPECT_EQ(plan.clock_changes(), 0);
  plan.instructions[0][1].clock = {1200};
  EXPECT_EQ(plan.clock_changes(), 2);
  plan.instructions[0][2].clock = {0};  // keeps 1200
  EXPECT_EQ(plan.clock_changes(), 2);
  plan.instructions[1].back().clock = {1050};  // 900 again when the next iteration begins
  EXPECT_EQ(plan.clock_changes(), 4);
}

}  // namespace
}  // namespace harpe::plan
