#pragma once
/// \file
/// What fixed-time instructions cost.

#include <span>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/fixed_times.h"

namespace harpe::plan {

/// The profile with rows for what `with_fixed_times` added to a schedule: the GPU draws its
/// blocking power meanwhile. What the profile has a time for stays.
/// \param blocking_power  one a stage
Profile with_fixed_time_rows(const Profile& profile, const Schedule& schedule,
                             const FixedTimes& times, std::span<const Watts> blocking_power);

/// Every time that `profile` has already is an error.
Status check_fixed_times(const Profile& profile, const FixedTimes& times);

}  // namespace harpe::plan
