#pragma once
/// \file
/// The points of an instruction as curves over the clock, and the scatter of measurements about a
/// smooth curve of unknown form. Used only inside the room.

#include <span>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns one entry for each combination of knobs, in their order, with its points by rising
/// clock: only points with equal knobs may be compared as neighbours.
std::vector<InstructionProfile> curves_of(const InstructionProfile& entry);

struct Scatter {
  /// Standard deviation of the noise in `y`, from the median of the residuals, so that outliers
  /// have no effect; 0 with fewer than `kFewest` points.
  double noise = 0;
  /// Signed deviation of each point from the curve fitted without it; 0 with too few points.
  std::vector<double> deviation;
  /// True for points that are off the curve by more than 6 standard deviations and more than
  /// `tolerance`. Points next to a wide gap are never outliers: the curve may bend there.
  std::vector<bool> outlier;

  static constexpr std::size_t kFewest = 5;
};

/// Fits a local quadratic regression over the 7 nearest points (tricube weights; Cleveland 1979).
/// \pre `x` rises strictly. O(n) regressions for each outlier.
Scatter scatter(std::span<const double> x, std::span<const double> y, double tolerance);

/// Returns the median; reorders `values`. 0 if empty.
double median(std::vector<double>& values);

}  // namespace harpe::plan
