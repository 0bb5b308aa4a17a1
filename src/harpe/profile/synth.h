#pragma once
/// \file
/// Profiles from an analytic GPU model: for trying Harpe without measurements. Synthetic, and
/// labelled so. What each constant is matched to stands in docs/gpu-models.md.

#include <cstdint>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/profile/profile.h"

namespace harpe {

/// Analytic model of a GPU at work. With x = clock / max clock:
///
///   time(x)  = time(1) * (memory_bound + (1 - memory_bound) / x), up to the throttling below
///   power(x) = static + dynamic * x * V(x)^2
///   V(x)     = min_voltage below the knee, then linear up to V(1) = 1
///
/// Where power(x) would pass the power limit, the GPU runs at a lower clock than asked for. The
/// kernels of an instruction differ in power, so the limit bites gradually: between (1 - softness)
/// and (1 + softness) of the limit the power bends over to it.
struct GpuModel {
  std::string_view name;         ///< "a100-sxm"
  std::string_view description;  ///< with the source of its constants
  Megahertz min_clock, max_clock;
  int clock_step = 15;        ///< MHz
  Watts static_power;         ///< drawn at any clock while computing
  Watts dynamic_power;        ///< at max clock, fully busy, were there no power limit
  double knee = 0.6;          ///< fraction of max clock below which voltage is flat
  double min_voltage = 0.75;  ///< voltage below the knee, as a fraction of that at max clock
  double memory_bound = 0.1;  ///< share of a forward's time at max clock that no clock changes
  Watts power_limit;
  double limit_softness = 0.1;  ///< see above
  double throttle_loss = 0;     ///< speed lost to an unsteady clock, per fraction of clock withheld
  Megahertz throttle_floor{0};  ///< the power limit takes the clock no lower than this
  Watts blocking_power;
};
const std::vector<GpuModel>& gpu_models();

/// What the model predicts for work that takes `at_max` at the max clock without a power limit,
/// when `clock` is asked for. `memory_bound` is the work's own share. Only basic arithmetic is
/// used, so the result is the same on every platform.
OperatingPoint run_on(const GpuModel& gpu, Megahertz clock, Seconds at_max, double memory_bound);

/// Sweeps of real GPUs skip low clocks, which cost time and energy; so do synthetic ones, below
/// this share of the max clock.
inline constexpr double kLowestProfiledShare = 0.6;

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

/// A profile measured on the model. The same options give the same bytes on every platform and
/// compiler. Fails, with all faults at once, on an unknown GPU or an option out of its range.
Result<Profile> synthesize(const SynthOptions& options);

}  // namespace harpe
