#pragma once
/// \file
/// Energy over spans of time, inferred from energy over other spans by Gaussian process regression:
/// power varies around an unknown level in one of several manners. Private to the room.

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

/// One manner: a kernel, the amplitude as a share of the level, and how far the counter's steps
/// stray, in units of what is known of that.
struct PowerManner {
  std::size_t kernel = 0;  ///< in `power_kernels()`
  double amplitude = 0;
  double jitter = 1;
  double log_prior = 0;
};

std::span<const PowerKernel> power_kernels();
/// Returns the manners in the order of their kernels.
std::span<const PowerManner> power_manners();

/// Returns the factor on variances if only `readings` readings show how rough power is: about the
/// width of Student's t over that of the normal distribution. 1 for steady power.
double unsure_amplitude(std::size_t manner, std::size_t readings);

/// Double integral of the correlation: covariances of energies are differences of it.
class TwiceIntegrated {
 public:
  TwiceIntegrated(const PowerKernel& kernel, double period);
  /// The second antiderivative that is 0 and flat at 0.
  double operator()(double time) const;
  /// Sets the correlations at the differences of all pairs of rising times: a square, row by row.
  void of_differences(std::span<const double> times, std::span<double> values) const;

 private:
  double decay_, swing_, linear_ = 0, real_ = 0, imaginary_ = 0;
};

/// Covariances of energy over spans of time between some instants, for amplitude 1 W.
class SpanCovariance {
 public:
  /// \param instants  any order; O(instants^2)
  SpanCovariance(const PowerKernel& kernel, double period, std::span<const double> instants);
  /// Returns the covariance of power over the instants a to b and c to d, given by their numbers.
  double operator()(std::size_t a, std::size_t b, std::size_t c, std::size_t d) const {
    return at(b, c) - at(b, d) - at(a, c) + at(a, d);
  }

 private:
  double at(std::size_t i, std::size_t j) const { return values_[index_[i] * count_ + index_[j]]; }

  std::size_t count_ = 0;           ///< of different instants
  std::vector<std::size_t> index_;  ///< of each instant among those
  std::vector<double> values_;
};

/// Without the constant.
double log_normal(double off, double variance);
/// Of the sum of exponentials.
double log_sum(std::span<const double> terms);

/// Energy over a span of time, as it was or as a counter shows it: what a counter shows at a step
/// errs by not knowing exactly when the step came, which the steps at both ends say.
struct EnergySpan {
  double from = 0, to = 0;           ///< s
  int from_step = -1, to_step = -1;  ///< numbers of the counter's steps; -1: no step is there
};

/// A span whose energy was read.
struct SpanReading {
  EnergySpan span;
  double energy = 0;       ///< J
  double variance = 0;     ///< of noise of its own, J^2
  bool is_sample = false;  ///< of the power sensor, whose scale is not known exactly
  double blur = 0;         ///< how far off the span of a sample may be, s
  double before = 0;       ///< and how much earlier than that it may begin, s
};

/// How far off the time of a step may be: standard deviations, s.
struct StepTime {
  double jitter = 0;  ///< where steps stray as they usually do
  double fixed = 0;   ///< beside that, however they stray
  double power = 0;   ///< around it, W
};

/// What is known beside the readings.
struct PowerPrior {
  double period = 0.1;             ///< of the counter's steps, s
  double mean = 0, deviation = 0;  ///< of any level of power, W
  double level = 0;                ///< that amplitudes are shares of, W
  double common_scale = 0;         ///< relative standard deviation that all samples share
};

class PowerRegression {
 public:
  /// All must outlive it.
  PowerRegression(std::span<const SpanReading> readings, std::span<const StepTime> steps,
                  const PowerPrior& prior);

  /// Log density of the first readings in each manner: `[manner][count - 1]`.
  const std::vector<std::vector<double>>& log_densities() const { return log_densities_; }

  /// Mean and covariance (square, row by row) of targets, given the first `count` readings.
  struct Prediction {
    std::vector<double> mean, covariance;
  };
  /// For one manner and several counts.
  std::vector<Prediction> predict(std::size_t manner, std::span<const std::size_t> counts,
                                  std::span<const EnergySpan> targets) const;

 private:
  struct Factor {
    std::vector<double> rows;  ///< Cholesky's, triangular
    std::vector<double> z;     ///< the readings, as independent numbers
  };

  double noise_covariance(const EnergySpan& a, const EnergySpan& b, double jitter) const;
  void factor(std::size_t manner, const SpanCovariance& shape);

  std::span<const SpanReading> readings_;
  std::span<const StepTime> steps_;
  const PowerPrior& prior_;
  std::vector<double> instants_;
  std::vector<double> common_;  ///< covariances of readings that all manners have, row by row
  std::vector<Factor> factors_;
  std::vector<std::vector<double>> log_densities_;
};

/// One of several explanations of an energy that the readings cannot tell apart: a normal
/// distribution.
struct Explanation {
  double weight = 0;    ///< probability
  double energy = 0;    ///< J
  double variance = 0;  ///< J^2
  /// By which energy up to an instant falls where all steps came later than thought, W.
  double power = 0;
};

/// Puts explanations that are much alike together, and leaves out those that are unlikely.
std::vector<Explanation> simplified(std::vector<Explanation> explanations);

/// Mean, and the half-width of the interval around it that holds that share of the probability.
struct MeanAndError {
  double mean = 0, error = 0;
};
MeanAndError summary_of(const std::vector<Explanation>& explanations, double share_held);

}  // namespace harpe::device
