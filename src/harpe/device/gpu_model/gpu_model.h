#pragma once
/// \file
/// Analytic models of GPUs at work, shared by synthetic profiles and simulated GPUs. The sources of
/// the constants are in docs/gpu-models.md. The models use only basic arithmetic, so results are
/// the same on every platform. Pure functions; thread-safe.
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
/// If power(x) exceeds the power limit, the GPU runs below the requested clock. The kernels of an
/// instruction differ in power, so the limit takes effect gradually: between (1 - softness) and
/// (1 + softness) of the limit, power bends over to it.
struct GpuModel {
  std::string_view name;         ///< "a100-sxm"
  std::string_view description;  ///< description, with the source of the constants
  Megahertz min_clock, max_clock;
  int clock_step = 15;        ///< MHz
  Watts static_power{0};      ///< power while computing that does not depend on the clock
  Watts dynamic_power{0};     ///< dynamic power at max clock, fully busy, without a power limit
  double knee = 0.6;          ///< fraction of max clock below which voltage is constant
  double min_voltage = 0.75;  ///< voltage below the knee, as a fraction of the voltage at max clock
  double memory_bound = 0.1;  ///< share of a forward's time at max clock independent of the clock
  Watts power_limit{0};
  double limit_softness = 0.1;  ///< see above
  double throttle_loss = 0;     ///< speed lost to an unsteady clock, per fraction of clock withheld
  Megahertz throttle_floor{0};  ///< lowest clock to which the power limit throttles
  Watts blocking_power{0};
};
const std::vector<GpuModel>& gpu_models();

/// Returns the model with this name (case-insensitive), or null.
const GpuModel* find_gpu_model(std::string_view name);
/// Returns the model for a driver's product name ("NVIDIA A100-SXM4-80GB"), or null.
const GpuModel* model_of_gpu(std::string_view product);
/// Returns the message "unknown GPU model 'h-100'; is 'h100-sxm' meant? (known: ...)".
std::string unknown_gpu_model(std::string_view name);
/// Returns the same message with the names in `known` as the known models.
std::string unknown_gpu_model(std::string_view name, const std::vector<std::string>& known);

/// Returns dynamic power at fraction `x` of the max clock, relative to dynamic power at max clock.
double dynamic_share(const GpuModel& gpu, double x);
/// Returns the power in watts at fraction `x` of the max clock without a power limit.
double demanded_power(const GpuModel& gpu, double x);
/// Returns the power that a limit allows, at most 1; `demand` and result are relative to the limit.
double limited(double demand, double softness);
/// Returns the clock that the GPU runs at if clock `x` is requested, as fractions of the max clock.
double throttled_clock(const GpuModel& gpu, double x);
/// Returns the speed of a GPU that runs at clock `given` when `asked` was requested, as fractions
/// of the max clock and its speed: `given` minus the loss from an unsteady clock.
double throttled_speed(const GpuModel& gpu, double asked, double given);

}  // namespace harpe
