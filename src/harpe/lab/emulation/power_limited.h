#pragma once
/// \file
/// The profile of GPUs under a power limit, from one that was measured without it. Pure.

#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

/// Returns the profile with what each instruction takes under a power limit: if its energy / time
/// is above the limit at a clock, the GPU lowers the clock, and it takes what it takes at the
/// highest measured clock at which it is not. If all clocks are above the limit, it takes what it
/// takes at the lowest one. With knobs, only points with the same knobs count. The settings stay:
/// a point is what a GPU does when that clock is requested.
Profile at_power_limit(const Profile& profile, Watts limit);

}  // namespace harpe
