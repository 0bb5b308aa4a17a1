#pragma once
/// \file
/// Profiles from an analytic GPU model: for trying Harpe without measurements. Synthetic, and
/// labelled so.

#include <cstdint>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/profile/profile.h"

namespace harpe {

/// Analytic model of a GPU: t(f) = t_fixed + work * f_max / f, P(f) = static + dynamic * (f/f_max)
/// * (V(f)/V(f_max))^2 with V flat below a knee and linear above it, clocks throttled where P would
/// pass the power limit.
struct GpuModel {
  std::string_view name;         ///< "a100-sxm"
  std::string_view description;  ///< with the source of its constants
  Megahertz min_clock, max_clock;
  int clock_step = 15;        ///< MHz
  Watts static_power;         ///< drawn at any clock while computing
  Watts dynamic_power;        ///< at max clock, fully busy
  double knee = 0.6;          ///< fraction of max clock below which voltage is flat
  double min_voltage = 0.75;  ///< voltage below the knee, as a fraction of that at max clock
  double memory_bound = 0.1;  ///< share of time at max clock that does not scale with the clock
  Watts power_limit;
  Watts blocking_power;
};
const std::vector<GpuModel>& gpu_models();

struct SynthOptions {
  std::string_view gpu = "a100-sxm";
  int stages = 8;
  int chunks = 1;
  double forward_seconds = 0.05;  ///< of an average stage at max clock
  double imbalance = 1.1;         ///< longest over shortest stage
  double noise = 0.002;           ///< relative standard deviation of measured time and energy
  std::uint64_t seed = 1;
  bool split_backward = false;  ///< `backward` is the input gradient and `weight` rows are added
  bool recompute = false;       ///< `recompute` rows are added
};
Result<Profile> synthesize(const SynthOptions& options);

}  // namespace harpe
