// Power over time, and its swings.

#include "harpe/lab/emulation/power_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "harpe/lab/emulation/emulation_testing.h"

namespace harpe::lab {
namespace {

Joules energy_of(std::span<const double> watts, Seconds step) {
  return Watts{std::accumulate(watts.begin(), watts.end(), 0.0)} * step;
}

TEST(PowerRecorder, EnergyIsTheIntegralOfPower) {
  const PlannedPipeline planned(LatencyByClock(0.01_s), {1.2});
  const EmulationTerms terms{
      .iterations = 6,
      .stragglers = {.recurring = {{.slowdown = 1.2, .between = 2_s, .lasts = 2_s}}},
      .checkpoints = {.every = 2, .time = 1_s}};
  for (const double noise : {0.0, 0.02}) {
    EmulatedCluster cluster = planned.cluster({.pipelines = 3,
                                               .gpus_per_node = 5,
                                               .overhead = 0.1_s,
                                               .noise = noise,
                                               .power_spread = 0.05});
    PowerRecorder harpe(cluster, {.length = 100_s, .pipelines = 3});
    PowerRecorder all_max(cluster, {.length = 100_s, .pipelines = 0});
    const auto outcome =
        emulate(cluster, {.table = planned.table}, terms, {.power = {&harpe, &all_max}});
    ASSERT_TRUE(outcome.ok()) << outcome.error().text();
    ASSERT_LT(outcome->harpe.time, 100_s);
    const Seconds step = harpe.options().step;
    EXPECT_NEAR(energy_of(harpe.job(), step) / outcome->harpe.energy, 1, 1e-9) << noise;
    EXPECT_NEAR(energy_of(all_max.job(), step) / outcome->all_max.energy, 1, 1e-9) << noise;
    // The sums over nodes and over GPUs are the power of the job.
    std::vector<double> nodes(harpe.job().size()), gpus(harpe.job().size());
    std::vector<double> numbered(harpe.job().size());
    ASSERT_EQ(harpe.nodes(), 20U);  // 96 GPUs, 5 each
    for (std::size_t n = 0; n < harpe.nodes(); ++n) {
      const std::vector<double> node = harpe.node(n);
      for (std::size_t i = 0; i < node.size(); ++i) nodes[i] += node[i];
    }
    ASSERT_EQ(harpe.gpus(), 96U);
    for (std::size_t number = 0; number < harpe.gpus(); ++number) {
      const std::vector<double> gpu = harpe.numbered_gpu(number);
      for (std::size_t i = 0; i < gpu.size(); ++i) numbered[i] += gpu[i];
    }
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t stage = 0; stage < 4; ++stage) {
        const std::vector<double> gpu = harpe.gpu(p, stage);
        for (std::size_t i = 0; i < gpu.size(); ++i) gpus[i] += 8 * gpu[i];
      }
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_NEAR(nodes[i], harpe.job()[i], 1e-6);
      ASSERT_NEAR(gpus[i], harpe.job()[i], 1e-6);
      ASSERT_NEAR(numbered[i], harpe.job()[i], 1e-6);
    }
  }
}

TEST(PowerRecorder, LeavesOutWhatComesAfterItsLength) {
  const PlannedPipeline planned;
  EmulatedCluster cluster = planned.cluster({});
  PowerRecorder whole(cluster, {.length = 60_s});
  PowerRecorder part(cluster, {.length = 1.005_s});
  ASSERT_TRUE(
      emulate(cluster, {.table = planned.table}, {.iterations = 5}, {.power = {&whole}}).ok());
  ASSERT_TRUE(
      emulate(cluster, {.table = planned.table}, {.iterations = 5}, {.power = {&part}}).ok());
  ASSERT_EQ(part.job().size(), 101U);
  for (std::size_t i = 0; i < 101; ++i) EXPECT_DOUBLE_EQ(part.job()[i], whole.job()[i]) << i;
}

TEST(PowerSwings, FindTheFrequencyAndTheSizeOfASwing) {
  constexpr double kStep = 0.01;
  std::vector<double> watts;
  for (int i = 0; i < 60'000; ++i) {
    const double time = kStep * i;
    watts.push_back(1000 + 100 * std::sin(2 * std::numbers::pi * 2 * time) +
                    10 * std::sin(2 * std::numbers::pi * 15 * time) +
                    500 * std::sin(2 * std::numbers::pi * 35 * time));  // above the reported range
  }
  const PowerSwings swings = swings_of(watts, Seconds{kStep});
  EXPECT_NEAR(swings.mean.value, 1000, 1e-6);
  EXPECT_NEAR(swings.strongest.hertz, 2, 0.01);
  EXPECT_NEAR(swings.strongest.amplitude.value, 100, 15);
  EXPECT_GE(swings.spectrum.front().hertz, 0.1);
  EXPECT_LE(swings.spectrum.back().hertz, 20);
  double around_15 = 0;
  for (const SpectralLine& line : swings.spectrum)
    if (std::abs(line.hertz - 15) < 0.02) around_15 = std::max(around_15, line.amplitude.value);
  EXPECT_NEAR(around_15, 10, 1.5);
}

TEST(PowerSwings, FindTheSteepestRamps) {
  std::vector<double> watts(2000, 100.0);
  for (int i = 1000; i < 2000; ++i) watts[i] = 300;  // a step up after 10 s
  watts.resize(2300, 0.0);                           // and down after 20 s
  const PowerSwings swings = swings_of(watts, 0.01_s);
  ASSERT_EQ(swings.ramps.size(), 3U);
  EXPECT_DOUBLE_EQ(swings.ramps[0].up, 200);
  EXPECT_DOUBLE_EQ(swings.ramps[1].up, 40);
  EXPECT_DOUBLE_EQ(swings.ramps[2].up, 20);
  EXPECT_DOUBLE_EQ(swings.ramps[0].down, 300);
  EXPECT_EQ(swings.peak, 300_W);
  EXPECT_EQ(swings.lowest, 0_W);
  EXPECT_TRUE(swings.spectrum.empty()) << "23 s are too short for 0.1 Hz";
  EXPECT_TRUE(swings_of(std::vector<double>{5}, 0.01_s).ramps.empty());
}

}  // namespace
}  // namespace harpe::lab
