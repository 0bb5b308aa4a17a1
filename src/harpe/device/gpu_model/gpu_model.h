#pragma once
/// \file
/// Analytic models of GPUs at work, shared by synthetic profiles and simulated GPUs. What each
/// constant is matched to stands in docs/gpu-models.md. Only basic arithmetic is used, so results
/// are the same on every platform. Pure functions; thread-safe.
///
///   for (const harpe::GpuModel& gpu : harpe::gpu_models()) show(gpu.name, gpu.max_clock);
///   const harpe::GpuModel* a40 = harpe::find_gpu_model("a40");

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"

namespace harpe {

/// With x = clock / max clock:
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
  Watts static_power{0};      ///< drawn at any clock while computing
  Watts dynamic_power{0};     ///< at max clock, fully busy, were there no power limit
  double knee = 0.6;          ///< fraction of max clock below which voltage is flat
  double min_voltage = 0.75;  ///< voltage below the knee, as a fraction of that at max clock
  double memory_bound = 0.1;  ///< share of a forward's time at max clock that no clock changes
  Watts power_limit{0};
  double limit_softness = 0.1;  ///< see above
  double throttle_loss = 0;     ///< speed lost to an unsteady clock, per fraction of clock withheld
  Megahertz throttle_floor{0};  ///< the power limit takes the clock no lower than this
  Watts blocking_power{0};
};
const std::vector<GpuModel>& gpu_models();

/// The model of that name in any case, or null.
const GpuModel* find_gpu_model(std::string_view name);
/// Returns the model for a driver's product name ("NVIDIA A100-SXM4-80GB"), or null.
const GpuModel* model_of_gpu(std::string_view product);
/// "unknown GPU model 'h-100'; is 'h100-sxm' meant? (known: ...)".
std::string unknown_gpu_model(std::string_view name);
/// The same message for a list of known models.
std::string unknown_gpu_model(std::string_view name, const std::vector<std::string>& known);

/// Dynamic power at fraction `x` of the max clock, as a share of that at the max clock.
double dynamic_share(const GpuModel& gpu, double x);
/// Watts were there no limit, at fraction `x` of the max clock.
double demanded_power(const GpuModel& gpu, double x);
/// `demand` as a fraction of the limit, bent over to at most 1.
double limited(double demand, double softness);
/// The fraction of the max clock that the GPU really runs at when `x` is asked for.
double throttled_clock(const GpuModel& gpu, double x);
/// Work done per time when `asked` (fraction of max clock) was asked for and `given` is run at:
/// the given clock, less what its unsteadiness costs.
double throttled_speed(const GpuModel& gpu, double asked, double given);

}  // namespace harpe
