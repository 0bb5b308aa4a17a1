#pragma once
/// \file
/// An analytic profile, random clocks, and plans of several pipelines, for tests.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harpe/plan/frontier/plan_from_clocks_testing.h"

namespace harpe::plan {

/// Returns the value. If there is none, the test fails with the message.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return *std::move(result);
}

/// Returns the messages of a failure; "" for success.
template <class T>
std::string diagnostics_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().text();
}

inline constexpr int kTestClocks[] = {900, 1050, 1200, 1350};

/// Returns a profile whose times fall and powers rise with the clock. Every stage and kind differs.
/// \param splits  adds rows for weight gradients, so that backward rows are input gradients
inline Profile test_profile(int stages, int chunks = 1, bool splits = false) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      double size = 2 + 0.1 * stage + 0.07 * chunk;
      for (const auto kind :
           {InstructionKind::kForward, InstructionKind::kBackward, InstructionKind::kWeight,
            InstructionKind::kRecompute, InstructionKind::kRecomputeBackward}) {
        size += 0.3;
        if (kind == InstructionKind::kWeight && !splits) continue;
        InstructionProfile& entry = entries.emplace_back();
        entry.stage = stage;
        entry.chunk = chunk;
        entry.kind = kind;
        for (const int clock : kTestClocks) {
          const double seconds = 0.01 * size * (0.3 + 0.7 * 1350 / clock);
          const double watts = 120 + 200 * std::pow(clock / 1350.0, 2.5);
          entry.points.push_back({{clock}, {seconds}, {watts * seconds}});
        }
      }
    }
  }
  return Profile(std::move(entries), chunks > 1);
}

/// Returns the same profile with the rows that the schedule needs.
inline Profile test_profile(const Schedule& schedule) {
  bool splits = false;
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) splits |= i.kind == InstructionKind::kWeight;
  }
  return test_profile(schedule.stages, schedule.chunks(), splits);
}

/// Returns the profile with data loading as a part of each forward: its time grows by `load` of its
/// stage, its energy by the blocking power during that time. So the input of a forward may arrive
/// before it loads, as in training frameworks. A `load` instruction in the list would delay a
/// blocking receive.
inline Profile with_loading(const Profile& profile, const PerStage<Seconds>& load,
                            const PerStage<Watts>& blocking_power) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    const bool has_forward =
        entry.kind == InstructionKind::kForward || entry.kind == InstructionKind::kForwardBackward;
    if (!has_forward) continue;
    for (OperatingPoint& point : entry.points) {
      point.time += load[entry.stage];
      point.energy += blocking_power[entry.stage] * load[entry.stage];
    }
  }
  return profile.with_entries(std::move(entries));
}

/// Returns a measured clock for every computation.
inline std::vector<std::vector<Megahertz>> random_clocks(const Schedule& schedule,
                                                         std::mt19937_64& random) {
  std::vector<std::vector<Megahertz>> clocks;
  for (const auto& list : schedule.lists) {
    auto& of_stage = clocks.emplace_back();
    for (const Instruction& i : list) {
      if (!is_fixed_time(i.kind)) of_stage.push_back({kTestClocks[random() % 4]});
    }
  }
  return clocks;
}

/// Returns transfers over every boundary, with different times.
inline Transfers test_transfers(Transfers::Mode mode, int parts) {
  Transfers transfers{.mode = mode, .forward = {}, .backward = {}};
  for (int part = 0; part + 1 < parts; ++part) {
    transfers.forward.push_back({0.002 + 0.001 * part});
    transfers.backward.push_back({0.003 + 0.0005 * part});
  }
  return transfers;
}

struct TestPipeline {
  Schedule schedule;
  Transfers transfers;
};

/// Returns schedules of several kinds with transfers of both modes. Schedules with more than one
/// chunk a stage would deadlock in rendezvous.
inline std::vector<TestPipeline> test_pipelines() {
  std::vector<TestPipeline> pipelines;
  for (const char* const name :
       {"1f1b", "gpipe", "zb-h1", "early-recompute-1f1b", "zb-v", "interleaved-1f1b"}) {
    const Schedule schedule =
        must(make_schedule(name, {.stages = 3, .micro_batches = 6, .chunks = 2}));
    for (const auto mode : {Transfers::Mode::kOverlapped, Transfers::Mode::kRendezvous}) {
      if (mode == Transfers::Mode::kRendezvous && schedule.chunks() > 1) continue;
      pipelines.push_back({schedule, test_transfers(mode, schedule.parts())});
    }
  }
  return pipelines;
}

/// Returns a plan with random clocks.
inline Plan test_plan(const Schedule& schedule, const Transfers& transfers, std::uint64_t seed,
                      Watts blocking_power = Watts{70}) {
  std::mt19937_64 random(seed);
  const Pipeline pipeline = must(Pipeline::build(schedule, transfers));
  return must(plan_from_clocks(
      pipeline, test_profile(schedule), random_clocks(schedule, random),
      {.blocking_power = blocking_power, .gpus_per_stage = 2, .job = "a \"job\""}));
}

inline Plan test_plan(std::uint64_t seed = 1) {
  return test_plan(must(one_f_one_b({.stages = 3, .micro_batches = 5})), {}, seed);
}

}  // namespace harpe::plan
