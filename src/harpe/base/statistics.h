#pragma once
/// \file
/// Means with confidence intervals, and quantiles.

#include <cstddef>
#include <span>
#include <vector>

namespace harpe {

/// Half-width of the middle 95 % of a normal distribution, in standard deviations.
inline constexpr double kNinetyFivePercent = 1.959964;

inline double square(double x) {
  return x * x;
}

/// From the median absolute deviation to the standard deviation, of a normal distribution.
inline constexpr double kMadToSigma = 1.4826;
/// Standard error of a median over that of a mean of as many normal values: sqrt(pi / 2).
inline constexpr double kMedianLoss = 1.2533;

/// Mean of independent values, and the half-width of its 95 % interval (Student's t). Infinite for
/// fewer than two values.
struct MeanWithError {
  double mean = 0;
  double error = 0;
};
MeanWithError mean_with_error(std::span<const double> values);

/// The same of values that are known unequally well: weighted by inverse variance, with what they
/// scatter beyond their errors added to the variance of each (DerSimonian and Laird 1986).
/// \param errors  half-widths of the values' 95 % intervals, the same length; 0: exact
MeanWithError mean_with_error(std::span<const double> values, std::span<const double> errors);

/// Two-sided 95 % quantile of Student's t for `degrees` of freedom, at least 1.
double student_quantile(int degrees);

/// The `share` quantile (0 to 1), linear between values; `values` need not be sorted, not empty.
double quantile(std::span<const double> values, double share);

/// The median, of an even number of values the lower of the two in the middle: where disturbances
/// only add, as to times, one of two may be without. 0 without values.
double lower_median(std::vector<double> values);

/// The median of the newest 15 values: some that are far off move it little.
class RunningMedian {
 public:
  /// Returns the median with this value.
  double add(double value);

 private:
  std::vector<double> newest_;
  std::size_t next_ = 0;  ///< to be replaced, once there are enough
};

}  // namespace harpe
