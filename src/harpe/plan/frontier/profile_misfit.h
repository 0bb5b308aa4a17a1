#pragma once
/// \file
/// An explanation why a plan cannot belong to a profile, for the check of plans.

#include <string>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns a sentence if the profile lacks stages of the plan, lacks all rows of a kind that the
/// plan runs, or has rows for weight gradients where the plan runs none. Else returns an empty
/// text: the profile may still be another. O(instructions log kinds).
std::string profile_misfit(const Plan& plan, const Profile& profile);

}  // namespace harpe::plan
