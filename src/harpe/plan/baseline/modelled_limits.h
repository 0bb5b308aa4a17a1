#pragma once
/// \file
/// Estimates of one power limit for all GPUs, for profiles without rows for limits. Pure.
///
///   using namespace harpe::plan;
///   const auto limits = modelled_limits(frontier, *harpe::find_gpu_model("h100-sxm"));
///   if (limits.ok()) const auto curve = one_setting_curve(*limits, VariedKnob::kPowerLimit);
///
/// Model. Under a limit L the GPU lowers its clock until the instruction draws at most L. The power
/// of an instruction at a clock is its profiled energy over its profiled time. Between two profiled
/// clocks, time and power are interpolated linearly. The model of the GPU (harpe/gpu_model) adds
/// how gradually a limit acts (`limit_softness`), the cost of an unsteady clock (`throttle_loss`),
/// and the highest limit. For profiles made by the model itself, the result agrees with the model
/// within 2 % of time and 3 % of energy.

#include <optional>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Estimates an instruction under a power limit at the highest clock, as a point with that limit.
/// Returns nullopt if the GPU would fall below the lowest clock of `points`.
/// \param points  of one instruction, by rising clock; points with knobs are ignored
std::optional<OperatingPoint> under_limit(std::span<const OperatingPoint> points, Watts limit,
                                          const GpuModel& gpu);

/// Estimates the iteration of the frontier's pipeline under each limit, in steps of 1 % of the
/// GPU's highest limit, down to the lowest limit for which the profile has clocks. Takes as long as
/// `characterize`.
Result<std::vector<OneSettingPoint>> modelled_limits(const Frontier& frontier, const GpuModel& gpu);

}  // namespace harpe::plan
