#pragma once
/// \file
/// Costs of an instruction at a setting that may lie between measured ones.

#include <optional>
#include <span>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Time and energy at `setting`, from the points with its knobs; where there are none, with those
/// of `all_max_point`. Between measured clocks both are interpolated linearly in 1 / clock, in
/// which the time of a computation is nearly linear; outside them the nearest holds. Nothing when
/// `points`, as a profile has them, is empty.
std::optional<OperatingPoint> at_setting(std::span<const OperatingPoint> points,
                                         const InstructionSetting& setting);

}  // namespace harpe::plan
