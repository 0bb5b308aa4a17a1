#pragma once
/// \file
/// Means with confidence intervals, and quantiles. Pure functions.

#include <span>

namespace harpe {

/// Mean of independent values, and the half-width of its 95 % interval (Student's t). Infinite for
/// fewer than two values.
struct MeanWithError {
  double mean = 0;
  double error = 0;
};
MeanWithError mean_with_error(std::span<const double> values);

/// Two-sided 95 % quantile of Student's t for `degrees` of freedom, at least 1.
double student_quantile(int degrees);

/// The `share` quantile (0 to 1), linear between values; `values` need not be sorted, not empty.
double quantile(std::span<const double> values, double share);

}  // namespace harpe
