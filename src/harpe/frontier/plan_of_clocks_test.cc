// From a plan's clocks back to the plan, and what stages do beside computations.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harpe/frontier/fixed_time_rows.h"
#include "harpe/frontier/frontier.h"
#include "harpe/frontier/plan_testing.h"
#include "harpe/profile/synth.h"

namespace harpe {
namespace {

using testing::HasSubstr;

std::vector<std::vector<Megahertz>> clocks_of(const Plan& plan) {
  std::vector<std::vector<Megahertz>> clocks;
  for (const auto& stage : plan.instructions) {
    auto& of_stage = clocks.emplace_back();
    for (const PlannedInstruction& instruction : stage)
      if (instruction.kind != InstructionKind::kSwitch) of_stage.push_back(instruction.clock);
  }
  return clocks;
}

const FixedTimes kBeside{.load = {Seconds{0.002}, Seconds{0}, Seconds{0}},
                         .reduce = std::vector(3, Seconds{0.01}),
                         .optimizer = std::vector(3, Seconds{0.005})};

Frontier frontier_of(const FixedTimes& beside) {
  const Profile profile = must(synthesize({.stages = 3, .imbalance = 1.3}));
  const Schedule schedule =
      must(with_fixed_times(must(one_f_one_b({.stages = 3, .micro_batches = 4})), beside));
  const std::vector<Watts> blocking(3, Watts{80});
  return must(characterize(must(Pipeline::build(schedule)),
                           with_fixed_time_rows(profile, schedule, beside, blocking),
                           {.blocking_power = blocking, .gpus_per_stage = 2, .job = "j"}));
}

TEST(PlanOfClocks, IsThePlanThatTheClocksAreOf) {
  for (const FixedTimes& beside : {FixedTimes{}, kBeside}) {
    const Frontier frontier = frontier_of(beside);
    for (const PlanOptions& options : {PlanOptions{}, PlanOptions{.switch_latency = Seconds{0.005},
                                                                  .min_dwell = Seconds{0.01}}}) {
      const Plan plan = must(frontier.plan(frontier.min_time() * 1.1, options));
      EXPECT_EQ(plan_json(must(frontier.plan_of_clocks(clocks_of(plan), Seconds{0}, options))),
                plan_json(plan));
      const Seconds wait_until = frontier.min_time() * 1.3;
      const Plan waiting = must(frontier.plan_for_straggler(wait_until, options));
      EXPECT_EQ(plan_json(must(frontier.plan_of_clocks(clocks_of(waiting), wait_until, options))),
                plan_json(waiting));
    }
  }
}

TEST(PlanOfClocks, RefusesListsAndClocksThatAreNone) {
  const Frontier frontier = frontier_of({});
  const auto clocks = clocks_of(frontier.all_max());
  const auto refused = [&](const std::vector<std::vector<Megahertz>>& wrong) {
    const auto plan = frontier.plan_of_clocks(wrong, Seconds{0});
    return plan.ok() ? std::string() : plan.error().text();
  };
  EXPECT_EQ(refused(clocks), "");
  auto wrong = clocks;
  wrong[1].pop_back();
  EXPECT_THAT(refused(wrong), HasSubstr("one clock for each instruction"));
  wrong = clocks;
  wrong[1].push_back(Megahertz{1410});
  EXPECT_THAT(refused(wrong), HasSubstr("one clock for each instruction"));
  wrong.pop_back();
  EXPECT_THAT(refused(wrong), HasSubstr("one clock for each instruction"));
  EXPECT_THAT(refused({}), HasSubstr("one clock for each instruction"));
  wrong = clocks;
  wrong[2][0] = Megahertz{1};
  EXPECT_THAT(refused(wrong), HasSubstr("lacks stage 2 forward at 1 MHz"));
}

TEST(FixedTimeRows, AreDrawnAtBlockingPowerAndKeptWhereTheProfileHasThem) {
  const Frontier frontier = frontier_of(kBeside);
  const auto reduce = frontier.profile().points(1, 0, InstructionKind::kReduce);
  ASSERT_EQ(reduce.size(), 1U);
  EXPECT_EQ(reduce[0].time, Seconds{0.01});
  EXPECT_EQ(reduce[0].energy, Watts{80} * Seconds{0.01});
  EXPECT_TRUE(frontier.profile().points(1, 0, InstructionKind::kLoad).empty());
  const std::vector<Watts> more(3, Watts{100});
  const Profile again =
      with_fixed_time_rows(frontier.profile(), frontier.pipeline().schedule(), kBeside, more);
  EXPECT_EQ(again.points(1, 0, InstructionKind::kReduce)[0].energy, reduce[0].energy);
  EXPECT_TRUE(check_fixed_times(must(synthesize({.stages = 3})), kBeside).ok());
  const Status twice = check_fixed_times(frontier.profile(), kBeside);
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().text(), HasSubstr("optimizer: the profile already has a time"));
}

}  // namespace
}  // namespace harpe
