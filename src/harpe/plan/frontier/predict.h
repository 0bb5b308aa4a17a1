#pragma once
/// \file
/// What a given plan takes on real GPUs: its pipeline replayed with transfers, loading, late clock
/// switches and a fixed extra.
///
///   const auto real = harpe::predict(plan, profile, {.switch_latency = 0.01_s});
///   if (real.ok()) std::printf("%.3f s\n", real->iteration_time.value);

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

struct PredictOptions {
  /// Seconds from asking for a clock (at the instruction's start) until it is in force.
  LatencyByClock switch_latency = {};
  /// Seconds of data loading right ahead of every forward, once its input has arrived: none, or one
  /// entry a stage. Comes on top of `load` instructions in the plan.
  std::vector<Seconds> load = {};
  /// Instead of the plan's.
  std::optional<Transfers> transfers = {};
  /// Seconds that every iteration takes on top (optimizer, logging, gradient reduction).
  Seconds fixed_extra{0};
};

struct Prediction {
  Seconds iteration_time;
  Joules iteration_energy;        ///< whole pipeline, all GPUs, blocking included
  std::size_t clock_changes = 0;  ///< changes of settings
};

/// Replays a plan on the profile: every instruction starts as soon as it can.
///
/// Each stage repeats its list, so the setting before its first instruction is that of its last.
/// The first seconds of an instruction after a change of setting run at the old one: t = w t_old +
/// (1 - w) t_new with w = min(1, latency / t_old), and energy likewise. A latency that outlasts the
/// instruction goes on in those after it; waiting does not shorten it. Times and energies are
/// those of the profile, between measured clocks as `at_setting` interpolates them, and the plan's
/// own where the profile lacks the instruction. The plan's `switch` instructions allow for late
/// changes and are left out here, where the changes themselves are replayed. GPUs draw blocking
/// power in all waiting, loading and the fixed extra. O(instructions).
Result<Prediction> predict(const Plan& plan, const Profile& profile, const PredictOptions& options);

/// Returns what each instruction of a stage takes, by the replay above. Fixed-time instructions
/// that the profile lacks take what they say.
/// \param list  of the stage, without `switch` instructions; one iteration follows another
std::vector<Seconds> replay_stage(std::span<const PlannedInstruction> list, const Profile& profile,
                                  int stage, const LatencyByClock& switch_latency);

}  // namespace harpe
