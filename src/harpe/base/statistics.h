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

/// Ratio of the standard deviation of a normal distribution to its median absolute deviation.
inline constexpr double kMadToSigma = 1.4826;
/// Ratio of the standard error of the median of normal values to that of their mean: sqrt(pi / 2).
inline constexpr double kMedianLoss = 1.2533;

/// The mean of independent values, and the half-width of its 95 % interval (Student's t); infinite
/// for fewer than two values.
struct MeanWithError {
  double mean = 0;
  double error = 0;
};
MeanWithError mean_with_error(std::span<const double> values);

/// Returns the mean of values that have errors, weighted by inverse variance. If the values scatter
/// more than their errors explain, adds the excess to each variance (DerSimonian and Laird 1986).
/// \param errors  half-widths of the values' 95 % intervals, the same length; 0: exact
MeanWithError mean_with_error(std::span<const double> values, std::span<const double> errors);

/// Returns the two-sided 95 % quantile of Student's t for `degrees` of freedom, at least 1.
double student_quantile(int degrees);

/// Returns the `share` quantile (0 to 1), linear between values. \pre `values` is not empty
double quantile(std::span<const double> values, double share);

/// Returns the median, or the lower of the two middle values: disturbances only make times longer,
/// so the lower value is less disturbed. Returns 0 if there are no values.
double lower_median(std::vector<double> values);

/// The median of the newest 15 values, which a few outliers hardly change.
class RunningMedian {
 public:
  /// Adds a value and returns the median.
  double add(double value);

 private:
  std::vector<double> newest_;
  std::size_t next_ = 0;  ///< the index of the value to replace next, once there are 15
};

}  // namespace harpe
