#pragma once
/// \file
/// The frontier as the report shows it: marks, ranges and a curve thin enough to draw.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/report/report.h"
#include "harpe/report/svg.h"

namespace harpe::report {

using CurvePoint = std::pair<Seconds, Joules>;

/// Leaves out points of a curve that lie within `tolerance` of the chord between those kept; first
/// and last stay. O(n log n) for a convex curve.
std::vector<CurvePoint> thin_curve(std::span<const CurvePoint> curve, Joules tolerance);

/// A bound of the input, thin enough that no one sees the difference.
std::vector<CurvePoint> shown_bound(std::span<const CurvePoint> bound);

/// The fastest iteration time: of the bound, or of the points where there is no bound.
Seconds fastest_time(const ReportInput& input);

/// The iteration time of least energy on the bound, or on the points.
Seconds least_energy_time(const ReportInput& input);

/// Whether the point's higher bound is so much above the other that both are shown.
bool has_tight_bound(const ReportPoint& point);

/// Returns the bound that the chart draws below the point: its higher one if its settings are late.
Joules drawn_bound(const ReportInput& input, const ReportPoint& point);

/// Returns the all-max that a point is compared with: one that waits for a straggler if it does.
const Plan& all_max_for(const ReportInput& input, const ReportPoint& point);

/// The point the user asked for.
const ReportPoint& chosen_point(const ReportInput& input);

// The frontier as one SVG element, for a file of its own or within a page.

std::string frontier_picture(const ReportInput& input, Ground ground);

/// A plan compared with all-max, as fractions.
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
