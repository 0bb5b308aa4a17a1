#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/job/observation.h"

namespace harpe::training {
namespace {

/// Returns the saving of the plan for no slowdown, according to a profile.
double saved_by(const Pipeline& pipeline, const Profile& profile, const std::vector<Watts>& waiting,
                const Observation& observed) {
  const auto frontier = characterize(pipeline, profile, {.blocking_power = waiting});
  EXPECT_TRUE(frontier.ok()) << frontier.error().text();
  return saving_of(
      *plan::PlanTable::build(*frontier, {.plans = 0, .objective = Objective{}, .plan = {}}),
      observed);
}

/// Returns an observation at all-max of the GPUs on which a profile was measured.
Observation at_all_max(const Pipeline& pipeline, const plan::ScheduleWork& work,
                       const Profile& profile, Watts waiting) {
  const auto frontier = characterize(
      pipeline, profile,
      {.blocking_power = std::vector(static_cast<std::size_t>(work.stages()), waiting)});
  const Seconds time = plan::PlanTable::build(*frontier, {.plans = 0, .plan = {}})->all_max().time;
  FinishedIteration one;
  one.items = work.items();
  for (int stage = 0; stage < work.stages(); ++stage) {
    Joules energy = waiting * time;
    for (const plan::WorkItem& item : work.stage(stage)) {
      const OperatingPoint& point = all_max_point(profile.points(stage, item.chunk, item.kind));
      one.item_time.push_back(static_cast<float>(point.time.value));
      one.item_energy.push_back(static_cast<float>(point.energy.value));
      one.item_error.push_back(0);
      energy += (point.energy - waiting * point.time) * item.count;
    }
    one.groups.push_back({.ranks = 1, .time = time, .energy = energy});
  }
  Observation observed({.stages = work.stages()}, work);
  EXPECT_TRUE(observed.add(one));
  return observed;
}

struct MeasuredOn {
  const char* file;
  const char* gpu;
};
class ObservedSavingOfRealGpus : public ::testing::TestWithParam<MeasuredOn> {};

/// The range is computed only from measurements at the highest clock.
TEST_P(ObservedSavingOfRealGpus, IsInTheRange) {
  const auto file = measured_data() / "sosp24" / GetParam().file;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is missing";
  const Profile profile = *read_profile(file);
  const int stages = profile.stages();
  const Schedule schedule = *one_f_one_b({.stages = stages, .micro_batches = 12});
  const Pipeline pipeline = *Pipeline::build(schedule);
  const plan::ScheduleWork work(schedule);
  const Watts waiting{83.64};
  const Observation observed = at_all_max(pipeline, work, profile, waiting);
  const std::vector<ObservedGpu> gpus(static_cast<std::size_t>(stages),
                                      {.model = find_gpu_model(GetParam().gpu)});
  const std::vector<Watts> powers = waiting_powers(observed, gpus);
  EXPECT_NEAR(powers[0].value, waiting.value, 0.5);
  const double real = saved_by(pipeline, profile, powers, observed);
  std::vector<double> range;
  for (const Assumption assumption : kAssumptions) {
    range.push_back(
        saved_by(pipeline, assumed_profile(observed, work, gpus, assumption), powers, observed));
  }
  std::printf("%s: %.1f %%, estimated %.1f to %.1f %%\n", GetParam().file, 100 * real,
              100 * range[0], 100 * range[1]);
  EXPECT_LE(range[0], real);
  EXPECT_GE(range[1], real);
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, ObservedSavingOfRealGpus,
    ::testing::Values(MeasuredOn{"emulation/gpt3-175b_a100-sxm.csv", "a100-sxm"},
                      MeasuredOn{"emulation/bloom-176b_a100-sxm.csv", "a100-sxm"},
                      MeasuredOn{"measured/gpt3-1.3b.csv", "a100-pcie"},
                      MeasuredOn{"measured/bert-1.3b.csv", "a100-pcie"},
                      MeasuredOn{"measured/bloom-3b.csv", "a100-pcie"},
                      MeasuredOn{"measured/t5-3b.csv", "a100-pcie"},
                      MeasuredOn{"measured/wide-resnet101.csv", "a100-pcie"}));

TEST(ObservedSaving, AtTheHighestClockAnAssumedProfileIsWhatWasObserved) {
  const plan::ScheduleWork work(*one_f_one_b({.stages = 2, .micro_batches = 2}));
  for (const GpuModel& gpu : gpu_models()) {
    for (const double share : {0.4, 0.8, 0.99}) {  // of the power limit
      Observation observed({.stages = 2}, work);
      FinishedIteration one;
      one.items = work.items();
      one.groups.assign(2, {.ranks = 1, .time = Seconds{1}, .energy = Joules{100}});
      for (std::size_t item = 0; item < one.items; ++item) {
        const float time = 0.05F * static_cast<float>(1 + item);
        one.item_time.push_back(time);
        one.item_energy.push_back(time * static_cast<float>(share * gpu.power_limit.value));
        one.item_error.push_back(0);
      }
      ASSERT_TRUE(observed.add(one));
      for (const Assumption assumption : kAssumptions) {
        const Profile profile = assumed_profile(observed, work, {{&gpu}, {&gpu}}, assumption);
        EXPECT_TRUE(profile.is_synthetic());
        ASSERT_EQ(profile.entries().size(), one.items);
        for (std::size_t item = 0; item < one.items; ++item) {
          const auto& points = profile.entries()[item].points;
          EXPECT_EQ(points.back().clock, gpu.max_clock);
          EXPECT_NEAR(points.back().time / observed.time(item), 1, 1e-9);
          EXPECT_NEAR(points.back().energy / *observed.energy(item), 1, 1e-9);
          EXPECT_LT(points.front().clock, points.back().clock);
          EXPECT_GT(points.front().time, points.back().time);
        }
      }
    }
  }
}

/// Two stages, the second a third longer, on a GPU that matches its model, at a requested clock.
struct ModelledTraining {
  ModelledTraining(const GpuModel& gpu, Megahertz asked) {
    const double given =
        throttled_clock(gpu, asked.value / static_cast<double>(gpu.max_clock.value));
    FinishedIteration one;
    one.items = work.items();
    std::vector<InstructionProfile> entries;
    for (int stage = 0; stage < 2; ++stage) {
      for (const plan::WorkItem& item : work.stage(stage)) {
        const double memory_bound = memory_bound_of(item.kind, gpu);
        const Seconds time{item.kind == InstructionKind::kForward ? 0.03 : 0.06};
        std::vector<OperatingPoint> points =
            sweep(gpu, asked, time * (stage == 0 ? 0.75 : 1), memory_bound);
        one.item_time.push_back(static_cast<float>(points.front().time.value));
        one.item_energy.push_back(static_cast<float>(points.front().energy.value));
        one.item_error.push_back(0);
        std::ranges::reverse(points);
        entries.push_back(
            {.stage = stage, .chunk = 0, .kind = item.kind, .points = std::move(points)});
      }
    }
    profile = Profile(std::move(entries));
    const Seconds time{5 * 0.09};
    one.groups.assign(2, {.ranks = 1,
                          .clock = {static_cast<int>(given * gpu.max_clock.value)},
                          .time = time,
                          .energy = Joules{std::numeric_limits<double>::quiet_NaN()}});
    for (int stage = 0; stage < 2; ++stage) {
      Joules energy = gpu.blocking_power * time;
      for (std::size_t k = 0; k < work.stage(stage).size(); ++k) {
        const std::size_t item = work.first(stage) + k;
        energy +=
            (Joules{one.item_energy[item]} - gpu.blocking_power * Seconds{one.item_time[item]}) *
            work.stage(stage)[k].count;
      }
      one.groups[static_cast<std::size_t>(stage)].energy = energy;
    }
    EXPECT_TRUE(observed.add(one));
  }

  Schedule schedule = *one_f_one_b({.stages = 2, .micro_batches = 4});
  Pipeline pipeline = *Pipeline::build(schedule);
  plan::ScheduleWork work{schedule};
  Profile profile;
  Observation observed{{.stages = 2}, work};
};

TEST(ObservedSaving, IsInTheRangeAtWhateverClockTheGpusAre) {
  for (const GpuModel& gpu : gpu_models()) {
    for (const double share : {1.0, 0.9, 0.8}) {
      SCOPED_TRACE(std::string(gpu.name) + " " + std::to_string(share));
      const int steps = static_cast<int>((1 - share) * gpu.max_clock.value) / gpu.clock_step;
      const Megahertz asked{gpu.max_clock.value - steps * gpu.clock_step};
      const ModelledTraining training(gpu, asked);
      const std::vector<ObservedGpu> gpus(2, {.model = &gpu});
      const std::vector<Watts> powers = waiting_powers(training.observed, gpus);
      const double real = saved_by(training.pipeline, training.profile, powers, training.observed);
      std::vector<double> range;
      for (const Assumption assumption : kAssumptions) {
        const Profile profile = assumed_profile(training.observed, training.work, gpus, assumption);
        for (const InstructionProfile& entry : profile.entries())
          EXPECT_LE(entry.points.back().clock, asked);
        range.push_back(saved_by(training.pipeline, profile, powers, training.observed));
      }
      EXPECT_LE(range[0], real);
      EXPECT_GE(range[1], real);
    }
  }
}

TEST(ObservedSaving, WhatIsAssumedKeepsThePowerAtTheTopAndOrdersTheRest) {
  for (const GpuModel& gpu : gpu_models()) {
    const GpuModel least = assumed(gpu, Assumption::kSavesLeast);
    const GpuModel most = assumed(gpu, Assumption::kSavesMost);
    EXPECT_NEAR(demanded_power(least, 1), demanded_power(gpu, 1), 1e-9);
    EXPECT_NEAR(demanded_power(most, 1), demanded_power(gpu, 1), 1e-9);
    for (double x = 0.6; x < 0.99; x += 0.05) {
      EXPECT_GT(demanded_power(least, x), demanded_power(gpu, x)) << gpu.name;
      EXPECT_LT(demanded_power(most, x), demanded_power(gpu, x)) << gpu.name;
    }
  }
}

}  // namespace
}  // namespace harpe::training
