#pragma once
/// \file
/// What a plan means against all-max, in words.

#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/report/report.h"

namespace harpe::report {

/// How a plan stands against all-max, as fractions.
struct Comparison {
  double time_change = 0;  ///< time / time of all-max - 1; negative where it is faster
  double saving = 0;       ///< 1 - energy / energy of all-max; negative where it needs more
};
Comparison compare(const Plan& all_max, Seconds time, Joules energy);

/// `kSyntheticRemark` where the plan is of a synthetic profile, else nothing.
std::string_view synthetic_remark(const Plan& plan);

/// "Same computation, no slowdown: 13.1 % less energy." Whatever is slower than all-max is at
/// least "less than 0.1 % slower".
std::string headline(const Plan& all_max, const ReportPoint& point);

/// The same in joules, and how far the plan is from the best possible.
std::string explanation(const Plan& all_max, const ReportPoint& point);

}  // namespace harpe::report
