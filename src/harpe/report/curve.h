#pragma once
/// \file
/// The frontier as the report shows it: marks, ranges and a curve thin enough to draw.

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/report/report.h"

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

}  // namespace harpe::report
