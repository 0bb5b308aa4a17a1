#include "harpe/plan/policy/pipeline_times.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

constexpr int kStages = 4;

/// Returns a profile with a fixed time before all computations, which no factor stretches.
Profile profile_of(const std::vector<double>& factors = std::vector<double>(kStages, 1)) {
  const Profile profile = *synthesize({.stages = kStages, .imbalance = 1.3, .noise = 0});
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries)
    for (OperatingPoint& point : entry.points) point.time = point.time * factors[entry.stage];
  entries.push_back({0, 0, InstructionKind::kLoad, {{{0}, {0.25}, {20}}}});
  return Profile(std::move(entries));
}

Schedule schedule_of() {
  Schedule schedule = *one_f_one_b({.stages = kStages, .micro_batches = 6});
  schedule.lists[0].insert(schedule.lists[0].begin(),
                           {.kind = InstructionKind::kLoad, .part = 0, .micro_batch = 0});
  return schedule;
}

Transfers transfers_of(Transfers::Mode mode) {
  return {.mode = mode, .forward = {{0.01}, {0.02}, {0.03}}, .backward = {{0.03}, {0.02}, {0.01}}};
}

TEST(PipelineTimes, AreThoseOfTheFrontierOfSuchCosts) {
  constexpr std::uint64_t kSeed = 20261122;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> factor(0.8, 2);
  for (const Transfers& transfers : {Transfers(), transfers_of(Transfers::Mode::kOverlapped),
                                     transfers_of(Transfers::Mode::kRendezvous)}) {
    const Pipeline pipeline = *Pipeline::build(schedule_of(), transfers);
    const PipelineTimes times(pipeline, profile_of());
    for (int i = 0; i < 8; ++i) {
      std::vector<double> factors;
      for (int stage = 0; stage < kStages; ++stage) factors.push_back(factor(random));
      const Frontier frontier =
          *characterize(pipeline, profile_of(factors), {.blocking_power = Watts{80}});
      EXPECT_NEAR(times.at_all_max(factors).value, frontier.all_max().iteration_time.value, 1e-9);
      const PlanTable table =
          *PlanTable::build(frontier, {.plans = 5, .plan = {.effort = Effort::kQuick}});
      for (const TablePlan& plan : table.plans())
        EXPECT_NEAR(times.at(plan, factors).value, plan.time.value, 1e-9);
    }
  }
}

TEST(PipelineTimes, WithoutFactorsAreThoseOfTheProfile) {
  const Pipeline pipeline = *Pipeline::build(schedule_of());
  const PipelineTimes times(pipeline, profile_of());
  const std::vector<double> ones(kStages, 1);
  EXPECT_EQ(times.at_all_max(), times.at_all_max(ones));
}

TEST(PipelineTimes, ClocksThatTheProfileLacksCountAsTheHighest) {
  const Pipeline pipeline = *Pipeline::build(schedule_of());
  const PipelineTimes times(pipeline, profile_of());
  TablePlan plan;
  for (const auto& list : schedule_of().lists) plan.clocks.emplace_back(list.size(), Megahertz{1});
  EXPECT_EQ(times.at(plan), times.at_all_max());
}

}  // namespace
}  // namespace harpe::plan
