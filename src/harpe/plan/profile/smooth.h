#pragma once
/// \file
/// The points of an instruction as curves over the clock, and how far measurements scatter about a
/// smooth curve whose form is not known. Used inside the room.

#include <span>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// One entry for each set of knobs, in their order, with its points by rising clock: only such
/// points may be compared as neighbours.
std::vector<InstructionProfile> curves_of(const InstructionProfile& entry);

struct Scatter {
  /// Standard deviation of the noise in `y`, by the median of the residuals, so that outliers do
  /// not count. 0 with fewer than `kFewest` points.
  double noise = 0;
  /// What each point lies above the curve through its neighbours without it; 0 with too few points.
  std::vector<double> deviation;
  /// Points that lie off the curve by more than 6 standard deviations and more than `tolerance`.
  /// Points next to a wide gap are never judged: the curve may bend there.
  std::vector<bool> outlier;

  static constexpr std::size_t kFewest = 5;
};

/// Local quadratic regression over the 7 nearest points (tricube weights; Cleveland 1979). `x`
/// strictly rising. O(n) regressions for each outlier found.
Scatter scatter(std::span<const double> x, std::span<const double> y, double tolerance);

/// The median; reorders `values`. 0 when empty.
double median(std::vector<double>& values);

}  // namespace harpe::plan
