// GPUs too hot for the clocks that their plans request.

#include "harpe/lab/emulation/throttled_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harpe/lab/emulation/emulation_testing.h"

namespace harpe::lab {
namespace {

using testing::HasSubstr;

/// The synthetic profile has clocks from 855 to 1410 MHz, in steps of 15.
constexpr Megahertz kLowest{855}, kHighest{1410};

StragglerTerms held_to(Megahertz clock, std::optional<int> pipeline = 0) {
  return {.recurring = {{.slowdown = 1, .pipeline = pipeline, .held_to = clock}}};
}

/// A planned pipeline with plans for the pipelines that wait for a throttled one.
struct ThrottledCase {
  explicit ThrottledCase(Megahertz clock)
      : slowdown(throttled_slowdowns({.stragglers = held_to(clock)}, PlannedPipeline().emulated(),
                                     PlannedPipeline().table.all_max())
                     .value()
                     .front()),
        planned({}, slowdown > 1 ? std::vector{slowdown} : std::vector<double>()) {}
  double slowdown;
  PlannedPipeline planned;
};

EmulationOutcome throttled_outcome(const PlannedPipeline& planned, const ClusterShape& shape,
                                   const EmulationTerms& terms) {
  EmulatedCluster cluster = planned.cluster(shape);
  return emulate(cluster,
                 {.table = planned.table, .rival = at_one_clock(planned.table.all_max(), 1200_MHz)},
                 terms, {})
      .value();
}

void expect_unchanged(const EmulationOutcome& a, const EmulationOutcome& b) {
  EXPECT_EQ(a.harpe.time, b.harpe.time);
  EXPECT_EQ(a.harpe.energy, b.harpe.energy);
  EXPECT_EQ(a.all_max.time, b.all_max.time);
  EXPECT_EQ(a.all_max.energy, b.all_max.energy);
  EXPECT_EQ(a.rival->time, b.rival->time);
  EXPECT_EQ(a.rival->energy, b.rival->energy);
  EXPECT_EQ(a.straggling, b.straggling);
  EXPECT_EQ(a.plan_changes, b.plan_changes);
}

EmulatedPipeline::Run run_plan(const EmulatedPipeline& emulated, std::size_t plan) {
  auto clocks = emulated.steady_clocks(plan);
  EmulatedPipeline::Run run;
  emulated.run({.plan = plan}, clocks, run);
  return run;
}

TEST(Throttling, AtTheHighestClockChangesNothing) {
  for (const double latency : {0.0, 0.01}) {
    for (const double noise : {0.0, 0.02}) {
      const PlannedPipeline planned(LatencyByClock(Seconds{latency}));
      const ClusterShape shape{.pipelines = 4, .noise = noise, .power_spread = 0.007};
      const auto usual = throttled_outcome(planned, shape, {.iterations = 20});
      for (const Megahertz clock : {kHighest, 2000_MHz}) {
        expect_unchanged(
            usual,
            throttled_outcome(planned, shape, {.iterations = 20, .stragglers = held_to(clock)}));
      }
    }
  }
}

TEST(Throttling, AtTheLowestClockEverythingRunsThere) {
  const PlannedPipeline planned;
  EmulatedPipeline emulated = planned.emulated();
  const std::size_t lowest = emulated.add(at_one_clock(planned.table.all_max(), kLowest)).value();
  const auto expected = run_plan(emulated, lowest);
  EXPECT_EQ(emulated.lowest_clock(), kLowest);
  for (const plan::TablePlan& plan : {planned.table.all_max(), planned.table.plans().front()}) {
    const std::size_t number = emulated.add(plan).value();
    const std::size_t variant = emulated.throttled(number, kLowest);
    EXPECT_NE(variant, number);
    EXPECT_EQ(emulated.throttled(number, kLowest), variant) << "it is added once";
    const auto run = run_plan(emulated, variant);
    EXPECT_EQ(run.time, expected.time);
    EXPECT_EQ(run.energy, expected.energy);
  }
}

TEST(Throttling, LeavesAPlanBelowItsClockAsItIs) {
  const PlannedPipeline planned;
  EmulatedPipeline emulated = planned.emulated();
  const std::size_t low = emulated.add(at_one_clock(planned.table.all_max(), 1200_MHz)).value();
  EXPECT_EQ(emulated.throttled(low, 1200_MHz), low);
  EXPECT_EQ(emulated.throttled(low, 1300_MHz), low);
  EXPECT_NE(emulated.throttled(low, 1199_MHz), low);
}

TEST(Throttling, BetweenMeasuredClocksCostsAreBetweenTheirs) {
  const PlannedPipeline planned;
  EmulatedPipeline emulated = planned.emulated();
  const std::size_t all_max = emulated.add(planned.table.all_max()).value();
  const auto below = run_plan(emulated, emulated.throttled(all_max, 1200_MHz));
  const auto between = run_plan(emulated, emulated.throttled(all_max, 1205_MHz));
  const auto above = run_plan(emulated, emulated.throttled(all_max, 1215_MHz));
  for (std::size_t i = 0; i < emulated.instructions(); ++i) {
    EXPECT_LT(std::min(below.time[i], above.time[i]), between.time[i]);
    EXPECT_GT(std::max(below.time[i], above.time[i]), between.time[i]);
  }
}

TEST(Throttling, OthersWaitForAHotPipelineAsForAStraggler) {
  const ThrottledCase hot(1200_MHz);
  EXPECT_GT(hot.slowdown, 1.05);
  const ClusterShape shape{.pipelines = 8};
  const auto throttled = throttled_outcome(
      hot.planned, shape, {.iterations = 5, .stragglers = held_to(1200_MHz), .reaction = 0});
  const auto straggling =
      throttled_outcome(hot.planned, shape,
                        {.iterations = 5,
                         .stragglers = {.recurring = {{.slowdown = hot.slowdown, .pipeline = 0}}},
                         .reaction = 0});
  EXPECT_NEAR(throttled.all_max.time / straggling.all_max.time, 1, 1e-9);
  // The fastest plan is 0.07 % faster than all-max. A throttled pipeline cannot run it.
  EXPECT_NEAR(throttled.harpe.time / straggling.harpe.time, 1, 1e-3);
  EXPECT_LE(throttled.harpe.time, throttled.all_max.time * (1 + 1e-9));
  EXPECT_LT(throttled.harpe.energy, straggling.harpe.energy) << "a lower clock takes less energy";
  EXPECT_EQ(throttled.straggling, 5);
  EXPECT_EQ(throttled.plan_changes, straggling.plan_changes);
}

TEST(Throttling, ComesAndGoesAndMeetsStragglers) {
  const ThrottledCase hot(1200_MHz);
  const Seconds each = hot.planned.table.all_max().time;
  EmulationTerms terms{.iterations = 20, .stragglers = held_to(1200_MHz, std::nullopt)};
  RecurringStraggler& throttle = terms.stragglers.recurring.front();
  throttle.between = 6.5 * each;
  throttle.lasts = 2 * each;
  const auto some = throttled_outcome(hot.planned, {.pipelines = 8}, terms);
  EXPECT_GT(some.straggling, 2);
  EXPECT_LT(some.straggling, 10);
  terms.stragglers.recurring.push_back({.slowdown = 1.1, .pipeline = 0});
  terms.stragglers.recurring.push_back({.slowdown = 1, .pipeline = 0, .held_to = 1200_MHz});
  const auto both = throttled_outcome(hot.planned, {.pipelines = 8}, terms);
  EXPECT_EQ(both.straggling, 20);
  EXPECT_NEAR(both.all_max.time / (20 * each * 1.1 * hot.slowdown), 1, 1e-9);
}

TEST(Throttling, EnergyIsTheIntegralOfPower) {
  const PlannedPipeline planned(LatencyByClock(0.01_s));
  EmulatedPipeline emulated = planned.emulated();
  const std::size_t plan = emulated.add(planned.table.plans().front()).value();
  const auto run = run_plan(emulated, emulated.throttled(plan, 1100_MHz));
  for (std::size_t stage = 0; stage < emulated.stages(); ++stage) {
    double effective = 0;
    for (std::size_t i = emulated.first_of_stage(stage); i < emulated.first_of_stage(stage + 1);
         ++i) {
      effective +=
          (run.energy[i] / run.time[i] - emulated.blocking_power(stage).value) * run.time[i];
    }
    EXPECT_NEAR(run.effective[stage].value / effective, 1, 1e-9);
  }
}

TEST(Throttling, RefusesWhatIsOutOfRange) {
  const PlannedPipeline planned;
  EmulatedCluster cluster = planned.cluster({});
  const auto error_of = [&](const EmulationTerms& terms) {
    const auto outcome = emulate(cluster, {.table = planned.table}, terms, {});
    return outcome.ok() ? std::string() : outcome.error().text();
  };
  EXPECT_THAT(error_of({.stragglers = held_to(500_MHz)}), HasSubstr("855 MHz"));
  EXPECT_THAT(error_of({.stragglers = held_to(Megahertz{-1})}), HasSubstr("above 0 MHz"));
}

}  // namespace
}  // namespace harpe::lab
