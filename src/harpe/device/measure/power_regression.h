#pragma once
/// \file
/// Gaussian process regression that infers the energy over spans of time from readings over other
/// spans. Model: power varies around an unknown level in several manners. Private to the room.

#include <cstddef>
#include <span>
#include <vector>

namespace harpe::device {

/// The correlation of power around its level: exp(-|t| / length) cos(2 pi frequency t). Times are
/// in periods of the counter's steps.
struct PowerKernel {
  double length = 0;
  double frequency = 0;
};

/// One manner in which power varies.
struct PowerManner {
  std::size_t kernel = 0;  ///< index in `power_kernels()`
  double amplitude = 0;    ///< amplitude as a share of the level
  double jitter = 1;       ///< factor on `StepTime::jitter`
  double log_prior = 0;
};

std::span<const PowerKernel> power_kernels();
/// Returns the manners in the order of their kernels.
std::span<const PowerManner> power_manners();

/// Returns the factor by which variances grow because only `readings` readings determine the
/// amplitude: about the width of Student's t over that of the normal distribution; 1 if steady.
double unsure_amplitude(std::size_t manner, std::size_t readings);

/// Double integral of the correlation. Covariances of energies are differences of its values.
class TwiceIntegrated {
 public:
  TwiceIntegrated(const PowerKernel& kernel, double period);
  /// Returns the second antiderivative whose value and slope at 0 are 0.
  double operator()(double time) const;
  /// Sets `values` to the double integrals at the differences of all pairs of ascending `times`, as
  /// a square matrix in row-major order.
  void of_differences(std::span<const double> times, std::span<double> values) const;

 private:
  double decay_, swing_, linear_ = 0, real_ = 0, imaginary_ = 0;
};

/// Covariances of the energies of spans between given instants, for amplitude 1 W.
class SpanCovariance {
 public:
  /// \param instants  in any order; O(instants^2)
  SpanCovariance(const PowerKernel& kernel, double period, std::span<const double> instants);
  /// Returns the covariance of the energy from instant a to b with the energy from c to d;
  /// arguments are positions in `instants`.
  double operator()(std::size_t a, std::size_t b, std::size_t c, std::size_t d) const {
    return at(b, c) - at(b, d) - at(a, c) + at(a, d);
  }

 private:
  double at(std::size_t i, std::size_t j) const { return values_[index_[i] * count_ + index_[j]]; }

  std::size_t count_ = 0;           ///< number of distinct instants
  std::vector<std::size_t> index_;  ///< position of each instant among the distinct ones
  std::vector<double> values_;
};

/// Returns the log density of a normal distribution at `off` from its mean, without the constant.
double log_normal(double off, double variance);
/// Returns the logarithm of the sum of the exponentials of `terms`.
double log_sum(std::span<const double> terms);

/// A span of time. Its energy is either the true one or the counter's, whose error comes from the
/// uncertain times of the steps at both ends.
struct EnergySpan {
  double from = 0, to = 0;           ///< s
  int from_step = -1, to_step = -1;  ///< numbers of the counter steps at the ends; -1 if none
};

/// A span whose energy was read.
struct SpanReading {
  EnergySpan span;
  double energy = 0;       ///< J
  double variance = 0;     ///< variance of independent noise, J^2
  bool is_sample = false;  ///< true for the power sensor, whose scale is not known exactly
  double blur = 0;         ///< largest error of the span of a sample, s
  double before = 0;       ///< additional time by which the span may begin earlier, s
};

/// Standard deviations of the time of a step, s, and the power at it.
struct StepTime {
  double jitter = 0;  ///< part that scales with the manner's jitter
  double fixed = 0;   ///< additional part that does not
  double power = 0;   ///< power around the step, W
};

/// Knowledge independent of the readings.
struct PowerPrior {
  double period = 0.1;             ///< period of the counter's steps, s
  double mean = 0, deviation = 0;  ///< mean and standard deviation of the level of power, W
  double level = 0;                ///< power that amplitudes are shares of, W
  double common_scale = 0;         ///< relative standard deviation that all samples share
};

class PowerRegression {
 public:
  /// All arguments must outlive this object.
  PowerRegression(std::span<const SpanReading> readings, std::span<const StepTime> steps,
                  const PowerPrior& prior);

  /// Returns the log density of the first `count` readings for each manner: `[manner][count - 1]`.
  const std::vector<std::vector<double>>& log_densities() const { return log_densities_; }

  /// Mean and covariance (square, row-major) of targets, given the first `count` readings.
  struct Prediction {
    std::vector<double> mean, covariance;
  };
  /// Returns the predictions of one manner for each of several counts.
  std::vector<Prediction> predict(std::size_t manner, std::span<const std::size_t> counts,
                                  std::span<const EnergySpan> targets) const;

 private:
  struct Factor {
    std::vector<double> rows;  ///< Cholesky factor, lower triangular
    std::vector<double> z;     ///< whitened readings (independent, variance 1)
  };

  double noise_covariance(const EnergySpan& a, const EnergySpan& b, double jitter) const;
  void factor(std::size_t manner, const SpanCovariance& shape);

  std::span<const SpanReading> readings_;
  std::span<const StepTime> steps_;
  const PowerPrior& prior_;
  std::vector<double> instants_;
  std::vector<double> common_;  ///< covariances of readings common to all manners, row-major
  std::vector<Factor> factors_;
  std::vector<std::vector<double>> log_densities_;
};

/// One of several possible explanations of an energy: a normal distribution with its probability.
struct Explanation {
  double weight = 0;    ///< probability
  double energy = 0;    ///< J
  double variance = 0;  ///< J^2
  /// Decrease of the energy up to an instant per second by which all steps are later, W.
  double power = 0;
};

/// Merges similar explanations and drops unlikely ones.
std::vector<Explanation> simplified(std::vector<Explanation> explanations);

/// Mean, and half-width of the interval around it that holds `share_held` of the probability.
struct MeanAndError {
  double mean = 0, error = 0;
};
MeanAndError summary_of(const std::vector<Explanation>& explanations, double share_held);

}  // namespace harpe::device
