#pragma once
/// \file
/// Energy over spans of time, inferred from energy over other spans, where power runs on in one of
/// several manners (power_process.h): Gaussian process regression. Private to the room.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/device/measure/power_process.h"

namespace harpe {

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

}  // namespace harpe
