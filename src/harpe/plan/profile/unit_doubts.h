#pragma once
/// \file
/// A check that a profile's numbers can be seconds and joules of one GPU. Pure; O(points).

#include <string>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Sentences for the user, each with the probable intention.
struct UnitDoubts {
  std::vector<std::string> impossible;  ///< values that no GPU has
  std::vector<std::string> unlikely;
};

/// Checks the median power of computing instructions (below 1 W and over 20 kW are impossible,
/// below 15 W and over 2 kW unlikely) and, if it is likely, the longest computation at its fastest
/// clock (over 20 s is unlikely).
UnitDoubts unit_doubts(const Profile& profile);

/// Returns the value rounded to four significant digits, for sentences.
std::string four_digits(double value);

}  // namespace harpe::plan
