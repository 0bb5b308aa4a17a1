#pragma once
/// \file
/// Prediction of the time and energy of a plan on real GPUs: a replay of its pipeline with
/// transfers, data loading, late clock switches and a fixed extra time.
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
  /// Time from the request for a clock (at the start of its instruction) until it is in force.
  LatencyByClock switch_latency = {};
  /// Time of data loading directly before every forward, after its input has arrived: one entry per
  /// stage, or empty for no loading. Added to the `load` instructions of the plan.
  std::vector<Seconds> load = {};
  /// Transfers that replace those of the plan; nullopt to keep them.
  std::optional<Transfers> transfers = {};
  /// Additional time of every iteration (optimizer, logging, gradient reduction).
  Seconds fixed_extra{0};
};

struct Prediction {
  Seconds iteration_time;
  Joules iteration_energy;        ///< whole pipeline, all GPUs, blocking included
  std::size_t clock_changes = 0;  ///< changes of settings
};

/// Replays a plan on the profile. Every instruction starts as early as possible.
///
/// Each stage repeats its list, so the setting before its first instruction is the setting of its
/// last. After a change of setting, the first seconds of an instruction run at the old setting: t =
/// w t_old + (1 - w) t_new with w = min(1, latency / t_old), and energy likewise. If the latency is
/// longer than the instruction, the next instructions start at the old setting, too; waiting does
/// not shorten the latency. Times and energies are from the profile, interpolated between measured
/// clocks by `at_setting`, or from the plan if the profile lacks the instruction. The plan's
/// `switch` instructions reserve time for late changes. They are omitted here because the changes
/// themselves are replayed. GPUs draw blocking power while they wait, while they load data, and
/// during the fixed extra time. O(instructions).
Result<Prediction> predict(const Plan& plan, const Profile& profile, const PredictOptions& options);

/// Returns the time of each instruction of a stage in the replay described above. Fixed-time
/// instructions that the profile lacks keep their planned time.
/// \param list  the list of the stage, without `switch` instructions, in repeated iterations
std::vector<Seconds> replay_stage(std::span<const PlannedInstruction> list, const Profile& profile,
                                  int stage, const LatencyByClock& switch_latency);

}  // namespace harpe
