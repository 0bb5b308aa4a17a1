// Training on an emulated cluster.

#include "harpe/lab/emulation/cluster_emulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "harpe/lab/emulation/emulation_testing.h"

namespace harpe::lab {
namespace {

using testing::HasSubstr;

EmulationOutcome outcome_of(const PlannedPipeline& planned, const ClusterShape& shape,
                            const EmulationTerms& terms, const EmulationHooks& hooks = {}) {
  EmulatedCluster cluster = planned.cluster(shape);
  return emulate(cluster,
                 {.table = planned.table,
                  .objective = planned.table.objective().value_or(Objective{}),
                  .rival = at_one_clock(planned.table.all_max(), 1200_MHz)},
                 terms, hooks)
      .value();
}

/// Expects two outcomes that are equal to the last bit.
void expect_same(const EmulationOutcome& a, const EmulationOutcome& b) {
  EXPECT_EQ(a.harpe.time, b.harpe.time);
  EXPECT_EQ(a.harpe.energy, b.harpe.energy);
  EXPECT_EQ(a.all_max.time, b.all_max.time);
  EXPECT_EQ(a.all_max.energy, b.all_max.energy);
  EXPECT_EQ(a.executed, b.executed);
}

TEST(ClusterEmulation, WithoutNoiseIsItsPlanTimesPipelinesAndIterations) {
  const PlannedPipeline planned;
  const EmulationOutcome outcome = outcome_of(planned, {.pipelines = 3}, {.iterations = 10});
  const plan::TablePlan &fastest = planned.table.plans().front(),
                        &all_max = planned.table.all_max();
  EXPECT_NEAR(outcome.harpe.time / (10 * fastest.time), 1, 1e-9);
  EXPECT_NEAR(outcome.harpe.energy / (30 * fastest.energy), 1, 1e-9);
  EXPECT_NEAR(outcome.all_max.time / (10 * all_max.time), 1, 1e-9);
  EXPECT_NEAR(outcome.all_max.energy / (30 * all_max.energy), 1, 1e-9);
  EXPECT_NEAR(outcome.saving(outcome.all_max), 1 - fastest.energy / all_max.energy, 1e-9);
}

TEST(ClusterEmulation, TrainsForATimeInsteadOfANumberOfIterations) {
  const PlannedPipeline planned;
  const Seconds each = planned.table.plans().front().time;
  const auto outcome = outcome_of(planned, {}, {.time = 7.5 * each});
  EXPECT_EQ(outcome.iterations, 8);
  EXPECT_NEAR(outcome.harpe.time / (8 * each), 1, 1e-9);
}

TEST(ClusterEmulation, OverheadIsWaiting) {
  const PlannedPipeline planned;
  const auto without = outcome_of(planned, {.pipelines = 2}, {.iterations = 1});
  const auto with = outcome_of(planned, {.pipelines = 2, .overhead = 3_s}, {.iterations = 1});
  EXPECT_NEAR((with.harpe.time - without.harpe.time).value, 3, 1e-9);
  EXPECT_NEAR((with.harpe.energy - without.harpe.energy).value, 2 * 4 * 8 * 83.64 * 3, 1e-6);
}

TEST(ClusterEmulation, AStragglerCostsWhatTheClosedFormulaSays) {
  // Perseus, SOSP'24, whole job: the straggler runs the fastest plan and takes s times its energy;
  // the others run the plan for T' = s T and wait for the rest of that time.
  for (const double s : {1.05, 1.2, 1.5}) {
    const PlannedPipeline planned({}, {s});
    const int n = 16;
    const auto outcome = outcome_of(
        planned, {.pipelines = n},
        {.iterations = 5, .stragglers = {.recurring = {{.slowdown = s}}}, .reaction = 0});
    const plan::PlanTable& table = planned.table;
    const plan::TablePlan &fastest = table.plans().front(), &all_max = table.all_max();
    const Seconds wait = s * std::min(fastest.time, all_max.time);
    const plan::TablePlan& waiting = table.plans()[table.for_waiting_until(wait * (1 + 1e-9))];
    const Joules system =
        s * fastest.energy +
        (n - 1.0) * (waiting.energy + table.waiting_power() * (wait - waiting.time));
    EXPECT_NEAR(outcome.harpe.energy / (5 * system), 1, 1e-9) << s;
    EXPECT_NEAR(outcome.harpe.time / (5 * wait), 1, 1e-9) << s;
    const Joules base =
        s * all_max.energy +
        (n - 1.0) * (all_max.energy + table.waiting_power() * ((s - 1) * all_max.time));
    EXPECT_NEAR(outcome.all_max.energy / (5 * base), 1, 1e-9) << s;
    EXPECT_NEAR(outcome.saving(outcome.all_max), 1 - system / base, 1e-9) << s;
    EXPECT_GT(outcome.saving(outcome.all_max), 0) << s;
  }
}

TEST(ClusterEmulation, AStragglerCountsOnceItHasBeenSlowForAWhile) {
  const PlannedPipeline planned({}, {1.2});
  const auto trace =
      parse_straggler_trace("pipeline,begin_iteration,end_iteration,slowdown\n1,4,10,1.2\n", "t");
  std::vector<Joules> energies;
  const EmulationHooks hooks{
      .observe = [&](std::int64_t, Seconds, const ClusterIteration& iteration) {
        energies.push_back(iteration.energy);
      }};
  const auto outcome =
      outcome_of(planned, {.pipelines = 4},
                 {.iterations = 14, .stragglers = {.trace = *trace}, .reaction = 3}, hooks);
  EXPECT_EQ(outcome.straggling, 6);
  EXPECT_EQ(outcome.plan_changes, 2);
  EXPECT_GT(energies[4], energies[7]) << "three iterations later the others run slower plans";
  EXPECT_EQ(energies[6], energies[4]);
  EXPECT_EQ(energies[11], energies[0]) << "one iteration after it has healed they run as before";
  EXPECT_NE(energies[10], energies[0]);
}

TEST(ClusterEmulation, WorkersDoNotChangeABit) {
  const PlannedPipeline planned(LatencyByClock(0.01_s), {1.2});
  const ClusterShape shape{.pipelines = 7, .noise = 0.03, .power_spread = 0.007, .seed = 5};
  const EmulationTerms terms{
      .iterations = 40,
      .stragglers = {.recurring = {{.slowdown = 1.2, .between = 20_s, .lasts = 9_s}}}};
  const auto one = outcome_of(planned, shape, terms);
  EmulationHooks hooks;
  hooks.workers.count = 3;
  hooks.workers.each = [](std::size_t items, const PipelineWorkers::Work& work) {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 0; worker < 3; ++worker) {
      threads.emplace_back([&, worker] {
        for (std::size_t item = worker; item < items; item += 3) work(worker, item);
      });
    }
  };
  expect_same(one, outcome_of(planned, shape, terms, hooks));
  ClusterShape other = shape;
  other.seed = 6;
  EXPECT_NE(outcome_of(planned, other, terms).harpe.energy, one.harpe.energy);
}

TEST(ClusterEmulation, NoiseMakesTheSlowestPipelineSlower) {
  const PlannedPipeline planned;
  const auto exact = outcome_of(planned, {.pipelines = 8}, {.iterations = 50});
  const auto noisy = outcome_of(planned, {.pipelines = 8, .noise = 0.05}, {.iterations = 50});
  EXPECT_GT(noisy.harpe.time, 1.005 * exact.harpe.time);
  EXPECT_LT(noisy.harpe.time, 1.2 * exact.harpe.time);
  EXPECT_NEAR(noisy.saving(noisy.all_max), exact.saving(exact.all_max), 0.02);
}

TEST(ClusterEmulation, SpreadOfPowerLeavesTimesAndChangesEnergyALittle) {
  const PlannedPipeline planned;
  const auto exact = outcome_of(planned, {.pipelines = 8}, {.iterations = 2});
  const auto spread =
      outcome_of(planned, {.pipelines = 8, .power_spread = 0.02}, {.iterations = 2});
  EXPECT_EQ(spread.harpe.time, exact.harpe.time);
  EXPECT_NE(spread.harpe.energy, exact.harpe.energy);
  // The mean of 32 nodes with a deviation of 2 % each deviates by 0.35 %.
  EXPECT_NEAR(spread.harpe.energy / exact.harpe.energy, 1, 0.015);
}

TEST(ClusterEmulation, PlansFollowAPowerCap) {
  const PlannedPipeline planned({}, {}, {}, 40);
  const plan::TablePlan& fastest = planned.table.plans().front();
  const Watts usual = 2 * (fastest.energy / fastest.time);
  std::vector<Watts> powers;
  const EmulationHooks hooks{
      .observe = [&](std::int64_t, Seconds, const ClusterIteration& iteration) {
        powers.push_back(iteration.energy / iteration.time);
      }};
  const Seconds turn = 2.5 * fastest.time;
  const auto outcome = outcome_of(planned, {.pipelines = 2},
                                  {.iterations = 6, .power_cap = {{{turn, 0.9 * usual}}}}, hooks);
  EXPECT_NEAR(powers[2] / usual, 1, 1e-9);
  EXPECT_LE(powers[3], 0.9 * usual);
  EXPECT_GT(powers[3], 0.85 * usual);
  EXPECT_EQ(outcome.above_cap, 0);
  const auto too_low =
      outcome_of(planned, {.pipelines = 2}, {.iterations = 6, .power_cap = {{{0_s, 100_W}}}});
  EXPECT_EQ(too_low.above_cap, 6);
}

TEST(ClusterEmulation, CheckpointsAndFailuresCostTheirTimeAndLostIterations) {
  const PlannedPipeline planned;
  const auto usual = outcome_of(planned, {}, {.iterations = 100});
  const EmulationTerms saves{.iterations = 100, .checkpoints = {.every = 10, .time = 2_s}};
  const auto saved = outcome_of(planned, {}, saves);
  EXPECT_EQ(saved.checkpoints, 10);
  EXPECT_NEAR((saved.harpe.time - usual.harpe.time).value, 20, 1e-6);
  EXPECT_NEAR((saved.harpe.energy - usual.harpe.energy).value, 20 * 4 * 8 * 83.64, 1e-3);

  EmulationTerms fails = saves;
  fails.failures = {.mean_between = 30 * planned.table.plans().front().time, .restart = 60_s};
  const auto failed = outcome_of(planned, {}, fails);
  EXPECT_GT(failed.failures, 0);
  EXPECT_EQ(failed.checkpoints, 10);
  EXPECT_GT(failed.executed, 100);
  const double lost = static_cast<double>(failed.executed - 100);
  EXPECT_NEAR((failed.harpe.time - saved.harpe.time).value,
              60.0 * static_cast<double>(failed.failures) + lost * usual.harpe.time.value / 100,
              1e-6);

  fails.checkpoints.every = 50;
  fails.failures.mean_between = planned.table.plans().front().time;
  EmulatedCluster cluster = planned.cluster({});
  const auto never = emulate(cluster, {.table = planned.table}, fails, {});
  ASSERT_FALSE(never.ok());
  EXPECT_THAT(never.error().text(), HasSubstr("does not end"));
  fails.checkpoints = {};
  EXPECT_FALSE(emulate(cluster, {.table = planned.table}, fails, {}).ok());
}

TEST(ClusterEmulation, RunsEachDifferentPipelineOnce) {
  const PlannedPipeline planned({}, {1.1, 1.2});
  EmulatedCluster cluster = planned.cluster({.pipelines = 3125});  // 100,000 GPUs
  const StragglerTerms stragglers{.recurring = {{.slowdown = 1.1}, {.slowdown = 1.2}}};
  const auto outcome = emulate(cluster, {.table = planned.table},
                               {.iterations = 1000, .stragglers = stragglers}, {});
  ASSERT_TRUE(outcome.ok()) << outcome.error().text();
  EXPECT_EQ(cluster.gpus(), 100'000);
  EXPECT_LE(cluster.kept_runs(), 10U);
}

TEST(ClusterEmulation, RefusesWhatIsOutOfRange) {
  const PlannedPipeline planned;
  for (const ClusterShape& shape :
       {ClusterShape{.pipelines = 0}, ClusterShape{.overhead = -1_s}, ClusterShape{.noise = 0.5},
        ClusterShape{.power_spread = -0.1}, ClusterShape{.pipelines = 2'000'000'000}}) {
    EXPECT_FALSE(EmulatedCluster::make(shape, planned.emulated()).ok());
  }
  EmulatedCluster cluster = planned.cluster({});
  const EmulatedPlans plans{.table = planned.table};
  EXPECT_FALSE(emulate(cluster, plans, {.iterations = 0}, {}).ok());
  EXPECT_FALSE(emulate(cluster, plans, {.reaction = -1}, {}).ok());
  EXPECT_FALSE(
      emulate(cluster, plans, {.stragglers = {.recurring = {{.slowdown = 0.5}}}}, {}).ok());
  EXPECT_FALSE(emulate(cluster, plans, {.stragglers = {.recurring = {{.pipeline = 1}}}}, {}).ok());
}

}  // namespace
}  // namespace harpe::lab
