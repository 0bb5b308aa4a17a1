#pragma once
/// \file
/// The frontier as drawn in the report: marks, ranges and a curve with few enough points to draw.

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

/// Removes points of a curve that are within `tolerance` of the chord between the points kept;
/// keeps the first and the last. O(n log n) for a convex curve.
std::vector<CurvePoint> thin_curve(std::span<const CurvePoint> curve, Joules tolerance);

/// Returns a bound of the input with as few points as possible without a visible difference.
std::vector<CurvePoint> shown_bound(std::span<const CurvePoint> bound);

/// Returns the fastest iteration time of the bound, or of the points if there is no bound.
Seconds fastest_time(const ReportInput& input);

/// Returns the iteration time of least energy on the bound, or of the points if there is no bound.
Seconds least_energy_time(const ReportInput& input);

/// Returns true if the tight bound of the point is visibly higher than its lower bound, so that
/// both are shown.
bool has_tight_bound(const ReportPoint& point);

/// Returns the bound that the chart draws below the point: the tight one if its settings are late.
Joules drawn_bound(const ReportInput& input, const ReportPoint& point);

/// Returns the all-max plan that a point is compared with: with the wait for a straggler if the
/// point waits too.
const Plan& all_max_for(const ReportInput& input, const ReportPoint& point);

/// Returns the point that the user asked for.
const ReportPoint& chosen_point(const ReportInput& input);

/// Draws the frontier as one SVG element, for a file of its own or within a page.
std::string frontier_picture(const ReportInput& input, Ground ground);

/// A plan compared with all-max, as fractions.
struct Comparison {
  double time_change = 0;  ///< time / time of all-max - 1; negative if faster
  double saving = 0;       ///< 1 - energy / energy of all-max; negative if it needs more
};
Comparison compare(const Plan& all_max, Seconds time, Joules energy);

/// Returns `kSyntheticRemark` if the plan is of a synthetic profile; empty otherwise.
std::string_view synthetic_remark(const Plan& plan);

/// Returns a sentence such as "Same computation, no slowdown: 13.1 % less energy." A plan slower
/// than all-max is at least "less than 0.1 % slower".
std::string headline(const Plan& all_max, const ReportPoint& point);

/// Returns the figures in joules and seconds, and the gap of the plan to the best possible.
std::string explanation(const Plan& all_max, const ReportPoint& point);

}  // namespace harpe::report
