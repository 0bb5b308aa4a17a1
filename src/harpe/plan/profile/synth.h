#pragma once
/// \file
/// Synthetic profiles from an analytic GPU model (harpe/gpu_model), for trying Harpe without
/// measurements. The profiles are marked as synthetic.
///
///   const auto profile = harpe::synthesize({.gpu = "a100-sxm", .stages = 4});

#include <cstdint>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

/// Predicts time and energy at `clock` for work that takes `at_max` at the max clock without a
/// power limit. `memory_bound` is the memory-bound share of the work's time. Uses only basic
/// arithmetic, so that the result is the same on every platform.
OperatingPoint run_on(const GpuModel& gpu, Megahertz clock, Seconds at_max, double memory_bound);

/// Returns the memory-bound share of an instruction's time if a forward has the model's share.
double memory_bound_of(InstructionKind kind, const GpuModel& gpu);

/// Lowest clock of a synthetic sweep, as a share of the max clock. Sweeps of real GPUs skip low
/// clocks too, because these cost both time and energy.
inline constexpr double kLowestProfiledShare = 0.6;

/// Returns the noiseless measurements of a sweep over the model's clocks from `highest` down.
/// \param at_highest  time of the work when `highest` is requested, power limit included
std::vector<OperatingPoint> sweep(const GpuModel& gpu, Megahertz highest, Seconds at_highest,
                                  double memory_bound);

struct SynthOptions {
  std::string_view gpu = "a100-sxm";
  int stages = 8;
  int chunks = 1;                 ///< per stage; each takes an equal part of the stage's time
  double forward_seconds = 0.05;  ///< of an average stage at max clock
  double imbalance = 1.1;         ///< longest over shortest stage; the last stage is the longest
  double noise = 0.002;           ///< relative standard deviation of measured time and energy
  std::uint64_t seed = 1;
  bool split_backward = false;  ///< `backward` is the input gradient and `weight` rows are added
  bool recompute = false;       ///< `recompute` rows are added
};

/// Generates a profile by measuring the model. The same options give the same bytes on every
/// platform and compiler. Fails, with all errors together, if the GPU is unknown or an option is
/// out of range.
Result<Profile> synthesize(const SynthOptions& options);

}  // namespace harpe
