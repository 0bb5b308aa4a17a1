// Plans restored from their clocks, and fixed-time instructions of stages.

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_from_clocks_testing.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
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

// Compares with `plan_from_clocks`, from the profile and a clock for each computation.
TEST(OneSetting, IsAReplayOfEachSettingThatAllComputationsHave) {
  Profile profile = test_profile(3);
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  std::erase_if(entries[1].points, [](const auto& point) { return point.clock.value == 1050; });
  for (InstructionProfile& entry : entries) {
    if (entry.stage != 2) continue;
    OperatingPoint limited = entry.points.back();
    limited.knobs.power_limit = Watts{200};
    entry.points.push_back(limited);
  }
  profile = profile.with_entries(std::move(entries));
  const std::vector<Watts> blocking = {Watts{50}, Watts{60}, Watts{70}};
  const Schedule schedule =
      must(with_fixed_times(must(one_f_one_b({.stages = 3, .micro_batches = 5})), kBeside));
  profile = with_fixed_time_rows(profile, schedule, kBeside, blocking);
  const Pipeline pipeline = must(Pipeline::build(schedule));
  const Frontier frontier =
      must(characterize(pipeline, profile, {.blocking_power = blocking, .gpus_per_stage = 2}));
  const std::vector<OneSettingPoint> found = frontier.one_setting();
  std::vector<int> clocks;
  for (const OneSettingPoint& point : found) {
    clocks.push_back(point.setting.clock.value);
    EXPECT_TRUE(point.setting.knobs.empty());
    const std::vector<std::vector<Megahertz>> lists(3, std::vector(10, point.setting.clock));
    const Plan plan = must(plan_from_clocks(pipeline, profile, lists,
                                            {.blocking_power = blocking, .gpus_per_stage = 2}));
    EXPECT_NEAR(point.iteration_time.value, plan.iteration_time.value, 1e-12);
    EXPECT_NEAR(point.iteration_energy.value, plan.iteration_energy.value, 1e-9);
  }
  EXPECT_EQ(clocks, (std::vector{1350, 1200, 900})) << "1050 MHz is not measured everywhere";
  EXPECT_EQ(found.front().iteration_time, frontier.all_max().iteration_time);
  EXPECT_EQ(found.front().iteration_energy, frontier.all_max().iteration_energy);
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
}  // namespace harpe::plan
