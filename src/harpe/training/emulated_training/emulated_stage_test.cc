// Times and energies of the instructions of one emulated GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "harpe/plan/schedule/fixed_times.h"
#include "harpe/training/emulated_training/emulated_machines.h"

namespace harpe::training {
namespace {

using testing::ElementsAre;
using testing::Field;

constexpr Megahertz kLow{1000}, kHigh{1400};

/// Returns the schedule of one stage: forward, backward, forward, backward.
Schedule schedule() {
  return *one_f_one_b({.stages = 1, .micro_batches = 2});
}
Profile costs() {
  return Profile({{.stage = 0,
                   .chunk = 0,
                   .kind = InstructionKind::kForward,
                   .points = {{kLow, 2_s, Joules{10}}, {kHigh, 1_s, Joules{20}}}},
                  {.stage = 0,
                   .chunk = 0,
                   .kind = InstructionKind::kBackward,
                   .points = {{kLow, 4_s, Joules{30}}, {kHigh, 2_s, Joules{60}}}}});
}

/// Returns `costs()` with a row for an instruction of fixed time.
Profile costs_with(InstructionKind kind, Seconds time) {
  const Profile own = costs();
  std::vector<InstructionProfile> entries(own.entries().begin(), own.entries().end());
  entries.push_back({.stage = 0, .chunk = 0, .kind = kind, .points = {{{}, time, Joules{7}}}});
  return own.with_entries(entries);
}

StageRun run(const std::vector<Megahertz>& clocks, const StageConditions& conditions) {
  return run_stage(schedule(), costs(), 0, clocks, conditions);
}

std::vector<double> times(const StageRun& run) {
  std::vector<double> times;
  for (const OperatingPoint& point : run.instructions) times.push_back(point.time.value);
  return times;
}

TEST(EmulatedStage, OneClockIsForAllInstructionsAndAListIsOneForEach) {
  EXPECT_THAT(times(run({kHigh}, {.clock = {kHigh}})), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(times(run({kHigh, kLow, kLow, kHigh}, {.clock = {kHigh}})), ElementsAre(1, 4, 2, 2));
}

TEST(EmulatedStage, NoClockLeavesTheClockAsItIs) {
  const StageRun left = run({{}, kLow, {}, {}}, {.clock = {kHigh}});
  EXPECT_THAT(times(left), ElementsAre(1, 4, 2, 4));
  EXPECT_EQ(left.clock.in_force, kLow);
}

TEST(EmulatedStage, ALateClockCostsItsShareOfTheInstruction) {
  const StageRun late =
      run({kLow, kLow, kHigh, kHigh}, {.clock = {kHigh}, .switch_latency = Seconds{0.5}});
  // Half of the first runs at the high clock, a quarter of the third at the low one.
  EXPECT_THAT(times(late), ElementsAre(1.5, 4, 1.25, 2));
  EXPECT_EQ(late.instructions[0].energy, Joules{15});
  EXPECT_EQ(late.instructions[2].energy, Joules{17.5});
}

TEST(EmulatedStage, AClockThatOutlastsItsInstructionIsLateInTheNextOnes) {
  const StageRun late = run({kLow}, {.clock = {kHigh}, .switch_latency = 2_s});
  // The first and half of the second run at the high clock.
  EXPECT_THAT(times(late), ElementsAre(1, 1 + 2, 2, 4));
  const StageRun later = run({kLow}, {.clock = {kHigh}, .switch_latency = 9_s});
  EXPECT_THAT(times(later), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(later.clock.in_force, kHigh);
  // 3 s of the latency are left for the next iteration.
  EXPECT_THAT(times(run({kLow}, {.clock = later.clock, .switch_latency = 9_s})),
              ElementsAre(1, 2, 2, 4));
}

TEST(EmulatedStage, ACapHoldsTheClockDownAndIsSeen) {
  const StageRun capped = run({kHigh}, {.clock = {kHigh}, .cap = kLow});
  EXPECT_THAT(times(capped), ElementsAre(2, 4, 2, 4));
  EXPECT_TRUE(capped.throttled);
  EXPECT_FALSE(run({kLow}, {.clock = {kHigh}, .cap = kLow}).throttled);
}

TEST(EmulatedStage, SlownessIsAFactorOnTimesAndEnergies) {
  const StageRun slow = run({kHigh}, {.clock = {kHigh}, .slowness = 1.5});
  EXPECT_THAT(times(slow), ElementsAre(1.5, 3, 1.5, 3));
  EXPECT_EQ(slow.instructions[0].energy, Joules{30});
}

TEST(EmulatedStage, TotalsAreOfEachKindOfComputation) {
  const auto totals = totals_of(schedule(), 0, run({kHigh}, {.clock = {kHigh}}).instructions);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].kind, InstructionKind::kForward);
  EXPECT_THAT(totals, ElementsAre(Field(&InstructionTotals::count, 2),
                                  Field(&InstructionTotals::count, 2)));
  EXPECT_EQ(totals[1].time, 4_s);
  EXPECT_EQ(totals[1].energy, Joules{120});
}

TEST(EmulatedStage, FixedTimeInstructionsTakeTheirTimeAndAreNotReported) {
  const Schedule full =
      *with_fixed_times(schedule(), {.load = {}, .reduce = {}, .optimizer = {Seconds{0.1}}});
  const StageRun done = run_stage(full, costs_with(InstructionKind::kOptimizer, Seconds{0.1}), 0,
                                  std::vector{kHigh}, {.clock = {kHigh}});
  EXPECT_EQ(done.instructions.back().time, Seconds{0.1});
  EXPECT_EQ(totals_of(full, 0, done.instructions).size(), 2U);
}

TEST(EmulatedStage, ALateClockComesIntoForceWhileAnInstructionOfFixedTimeRuns) {
  const Schedule full =
      *with_fixed_times(schedule(), {.load = {Seconds{3}}, .reduce = {}, .optimizer = {}});
  StageConditions conditions{.clock = {kHigh}};
  conditions.clock.request(kLow, 2_s);
  const StageRun done =
      run_stage(full, costs_with(InstructionKind::kLoad, 3_s), 0, std::vector{kLow}, conditions);
  ASSERT_EQ(full.lists[0].front().kind, InstructionKind::kLoad);
  EXPECT_EQ(done.instructions[1].time, 2_s) << "the whole forward at the low clock";
}

}  // namespace
}  // namespace harpe::training
