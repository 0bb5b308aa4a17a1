// Inputs at the limits of the solver's integers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

// Returns a profile of two stages whose instructions take `slowest` at the slower clock.
Profile profile_up_to(Seconds slowest) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < 2; ++stage) {
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
      InstructionProfile& entry = entries.emplace_back();
      entry.stage = stage;
      entry.kind = kind;
      entry.points = {{{1000}, slowest, {50}}, {{1400}, slowest / 2, {90}}};
    }
  }
  return Profile(std::move(entries), false);
}

Result<Frontier> frontier_up_to(Seconds slowest, Watts blocking_power = Watts{0}) {
  return characterize(one_f_one_b({.stages = 2, .micro_batches = 2}), profile_up_to(slowest),
                      {.blocking_power = blocking_power});
}

TEST(SolverRange, PlansAnIterationOfDaysAndRefusesALongerOne) {
  const Frontier frontier = must(frontier_up_to(100'000_s));
  const Plan plan = must(frontier.plan(frontier.max_time()));
  EXPECT_NEAR(plan.iteration_time.value, 600'000, 1e-3);
  EXPECT_THAT(diagnostics_of(frontier_up_to(200'000_s)),
              testing::HasSubstr("is beyond the solver's range"));
}

TEST(SolverRange, CountsThePointsThatOthersBeat) {
  Profile profile = profile_up_to(1_s);
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  entries[0].points.insert(entries[0].points.begin(), {{500}, 1e7_s, {1e9}});
  const auto frontier = characterize(one_f_one_b({.stages = 2, .micro_batches = 2}),
                                     Profile(std::move(entries), false), {});
  EXPECT_THAT(diagnostics_of(frontier), testing::HasSubstr("is beyond the solver's range"));
}

TEST(SolverRange, PlansWithAPointThatCostsFarMoreThanItIsWorth) {
  Profile profile = profile_up_to(1_s);
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  entries[0].points.insert(entries[0].points.begin(), {{500}, 2_s, {1e17}});
  const Frontier frontier = must(characterize(one_f_one_b({.stages = 2, .micro_batches = 2}),
                                              Profile(std::move(entries), false), {}));
  const Plan plan = must(frontier.plan(frontier.max_time(), {.switch_latency = 0.01_s}));
  EXPECT_LT(plan.iteration_energy.value, 8 * 90);
}

TEST(SolverRange, AnswersForAnyDeadlineAboveTheFastest) {
  const Frontier frontier = must(frontier_up_to(1_s, 10_W));
  const Seconds end_of_time{1e30};
  EXPECT_EQ(must(frontier.plan(end_of_time)).iteration_time,
            must(frontier.plan(frontier.least_energy_time())).iteration_time);
  EXPECT_EQ(must(frontier.plan_for_straggler(end_of_time)).iteration_time, end_of_time);
  EXPECT_GT(must(frontier.certificate(end_of_time)).deadline, frontier.min_time());
  // Just above the blocking power of all GPUs: all plans draw more while they run.
  const auto capped = frontier.plan_for_power_cap(Watts{20 * (1 + 1e-15)});
  ASSERT_FALSE(capped.ok());
  EXPECT_EQ(capped.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(must(frontier.plan_for_power_cap(Watts{1e30})).iteration_time, frontier.min_time());
}

TEST(SolverRange, FindsNoPlanForADwellBeyondAnyIteration) {
  const Frontier frontier = must(frontier_up_to(1_s));
  const auto plan = frontier.plan(frontier.max_time(), {.min_dwell = Seconds{1e30}});
  // A plan with one clock a stage has no change.
  EXPECT_EQ(must(plan).clock_changes(), 0);
}

}  // namespace
}  // namespace harpe::plan
