#pragma once
/// \file
/// Whether a profile's numbers can be seconds and joules of one GPU. Pure; linear in its points.

#include <string>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Sentences for the user, each with what was probably meant.
struct UnitDoubts {
  std::vector<std::string> impossible;  ///< no GPU is like that
  std::vector<std::string> unlikely;
};

/// By the median power of computing instructions: below 1 W and over 20 kW are impossible, below
/// 15 W and over 2 kW unlikely; and by the longest computation at its fastest clock: over 20 s is
/// unlikely.
UnitDoubts unit_doubts(const Profile& profile);

/// Rounded to four significant digits, for sentences.
std::string four_digits(double value);

}  // namespace harpe::plan
