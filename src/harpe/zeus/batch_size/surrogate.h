#pragma once
/// \file
/// Estimate of a function of the batch size's logarithm from a few of its values: a quadratic with
/// a prior on slope and bend, plus a Gaussian process for the difference from a quadratic (Gaussian
/// process regression with an explicit basis; Rasmussen and Williams, 2006, section 2.7).

#include <vector>

namespace harpe::zeus {

/// Prior of the function's natural logarithm, per doubling of the batch size.
struct SurrogatePrior {
  double slope = 0, slope_deviation = 0;
  double bend = 0, bend_deviation = 0;
  double waviness = 0;  ///< standard deviation of the smooth part beyond the quadratic
  double scatter = 0;   ///< standard deviation of each size's independent part
};

struct Estimate {
  double mean = 0;
  double variance = 0;
};

class Surrogate {
 public:
  struct Value {
    double doublings = 0;  ///< log2 of the batch size, from any origin
    double value = 0;
    double variance = 0;  ///< of its error
  };

  /// O(values^3).
  /// \param origin  where the prior of `slope` applies
  Surrogate(const SurrogatePrior& prior, double origin, const std::vector<Value>& values);
  /// O(values^2).
  Estimate at(double doublings) const;

 private:
  double expected(double distance) const;
  double covariance(double a, double b) const;
  std::vector<double> solved(std::vector<double> right) const;

  SurrogatePrior prior_;
  double origin_;
  std::vector<double> distances_;
  std::vector<std::vector<double>> factor_;  ///< Cholesky's, of the values' covariances
  std::vector<double> weights_;
};

// Whole numbers of epochs. A training ends with an epoch: if it needs 1.2 epochs, it takes two.
// The number that it needs is smooth in the batch size; the number that it takes is not. The
// difference is small for some hundred epochs, and up to a factor of two for one epoch.

/// Returns the mean number of epochs that trainings take if they need exp(x) epochs, x normal.
/// \param log_needed  mean and variance of x
double expected_whole_epochs(const Estimate& log_needed);

/// Returns the logarithm of the number of epochs that trainings needed if they took `taken` whole
/// epochs on average: the middle of the last epoch, with the variance of a uniform distribution
/// over it.
/// \param taken  at least 1
Estimate needed_for(double taken);

}  // namespace harpe::zeus
