#pragma once
/// \file
/// The published forecaster of Chase (carbon-aware power limits on Zeus), to compare with.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::lab {

struct SupportVectorOptions {
  double c = 100;
  double gamma = 1e-4;
  double epsilon = 0.1;
  double tolerance = 1e-6;
};

/// Support vector regression with a Gaussian (RBF) kernel, solved exactly. Immutable.
///
/// Model: f(x) = sum_i beta_i exp(-gamma |x_i - x|^2) + b, where beta and b minimise
///
///     1/2 beta' K beta + sum_i (epsilon |beta_i| - z_i beta_i),  sum beta = 0,  |beta_i| <= C
///
/// the dual of fitting z within epsilon at a cost of C per unit of excess. Solved by sequential
/// minimal optimization with second-order working sets until no pair violates the conditions of
/// Karush, Kuhn and Tucker by more than `tolerance`. O(n^2) memory: for training sets of at most a
/// few thousand points.
///
/// Source: Fan, Chen and Lin, Working Set Selection Using Second Order Information, JMLR 2005.
class SupportVectorRegression {
 public:
  /// Fits the model. Fails if lengths do not match, if there are more than 4000 points, if c, gamma
  /// or tolerance is not above 0, and if the minimum is not reached within ten million steps.
  /// \param points   one or more, all of one length
  /// \param targets  one per point
  static Result<SupportVectorRegression> fit(std::vector<std::vector<double>> points,
                                             std::span<const double> targets,
                                             const SupportVectorOptions& options = {});

  /// \param point  of the length of the points that it was fitted to
  double operator()(std::span<const double> point) const;
  const std::vector<double>& beta() const { return beta_; }
  double offset() const { return offset_; }

 private:
  SupportVectorRegression() = default;

  std::vector<std::vector<double>> points_;
  std::vector<double> beta_;
  double offset_ = 0, gamma_ = 0;
};

/// One-step forecasts of the slots from `first` to the end of the series.
struct ChaseForecast {
  std::vector<double> expected;  ///< g/kWh, of slot first + i
  double percentage_error = 0;   ///< mean absolute, as a fraction
  double persistence_error = 0;  ///< mean absolute, of repeating the value before, as a fraction
};

/// Forecasts by support vector regression on the sine and cosine of the slot's place in the day,
/// counted from the start of the file, and on the value of the slot before; trained once, on the
/// day before `first`. As published, the value before the file's first slot is the file's last
/// value: a look ahead that affects only a training day at the start of the file. Fails if that day
/// or any later slot has a gap, or if `first` is less than a day into the series or beyond its end.
///
/// Source: ml-energy/zeus, branch `chase` (2023): scikit-learn's SVR with C 100, gamma 1e-4.
Result<ChaseForecast> chase_forecast(const carbon::IntensitySeries& series, std::size_t first,
                                     const SupportVectorOptions& options = {});

}  // namespace harpe::lab
