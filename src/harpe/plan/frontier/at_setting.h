#pragma once
/// \file
/// Time and energy of an instruction at a setting that may lie between measured settings.

#include <optional>
#include <span>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns time and energy at `setting`, from the points with its knobs, or if there are none, from
/// the points with the knobs of `all_max_point`. Between measured clocks both are interpolated
/// linearly in 1 / clock, in which the time of a computation is nearly linear. Outside the measured
/// clocks the nearest point is used. Returns nullopt if `points` is empty.
/// \param points  in the order of a profile
std::optional<OperatingPoint> at_setting(std::span<const OperatingPoint> points,
                                         const InstructionSetting& setting);

}  // namespace harpe::plan
