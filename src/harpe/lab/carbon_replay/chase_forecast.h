#pragma once
/// \file
/// The forecaster of Chase (carbon-aware power limits on Zeus), as published, to be compared with.

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
/// the dual of fitting z within epsilon at C a unit of excess. Solved by sequential minimal
/// optimization with second-order working sets until no pair violates the conditions of Karush,
/// Kuhn and Tucker by more than `tolerance`. O(n^2) memory: for training sets of at most some
/// thousands.
///
/// Source: Fan, Chen and Lin, Working Set Selection Using Second Order Information, JMLR 2005.
class SupportVectorRegression {
 public:
  /// \param points   one or more, all of one length
  /// \param targets  one a point
  /// Fails on lengths that do not match, more than 4000 points, c, gamma or tolerance of 0 or less,
  /// and where the minimum is not reached within ten million steps.
  static Result<SupportVectorRegression> fit(std::vector<std::vector<double>> points,
                                             std::span<const double> targets,
                                             const SupportVectorOptions& options = {});

  /// \param point  as long as those it was fitted to
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
  double percentage_error = 0;   ///< mean absolute, as a share
  double persistence_error = 0;  ///< the same of repeating the value before
};

/// Support vector regression on sine and cosine of the slot's place in the day, counted from the
/// start of the file, and the slot before's value; trained once, on the day before `first`. As
/// published, the value before the file's first slot is the file's last one: a look ahead, which
/// only a training day that begins with the file sees. Fails where that day or anything after it
/// has a gap, or `first` is not a whole day into the series and before its end.
///
/// Source: ml-energy/zeus, branch `chase` (2023): scikit-learn's SVR with C 100, gamma 1e-4.
Result<ChaseForecast> chase_forecast(const carbon::IntensitySeries& series, std::size_t first,
                                     const SupportVectorOptions& options = {});

}  // namespace harpe::lab
