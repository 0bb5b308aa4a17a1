#pragma once
/// \file
/// Support vector regression with a Gaussian (RBF) kernel, solved exactly.
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

#include <span>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

struct SupportVectorOptions {
  double c = 100;
  double gamma = 1e-4;
  double epsilon = 0.1;
  double tolerance = 1e-6;
};

/// A fitted function; immutable.
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

}  // namespace harpe
