#pragma once
/// \file
/// Explanation of why a plan cannot belong to a profile, for the check of plans.

#include <string>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns a sentence if the profile lacks stages of the plan, lacks all rows of a kind that the
/// plan runs, or has rows for weight gradients although the plan runs backwards but no weight
/// gradients. Otherwise returns an empty text, although the plan may still be of another profile.
/// O(instructions log kinds).
std::string profile_misfit(const Plan& plan, const Profile& profile);

}  // namespace harpe::plan
