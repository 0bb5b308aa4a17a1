#pragma once
/// \file
/// Profile rows of fixed-time instructions.

#include <span>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/fixed_times.h"

namespace harpe::plan {

/// Returns the profile with rows for the instructions that `with_fixed_times` added to a schedule.
/// The GPU draws blocking power during these instructions. Existing rows of the profile stay.
/// \param blocking_power  one per stage
Profile with_fixed_time_rows(const Profile& profile, const Schedule& schedule,
                             const FixedTimes& times, std::span<const Watts> blocking_power);

/// Fails if the profile already has one of the times; diagnostics name each of them.
Status check_fixed_times(const Profile& profile, const FixedTimes& times);

}  // namespace harpe::plan
