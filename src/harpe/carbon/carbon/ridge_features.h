#pragma once
/// \file
/// What a ridge regression knows at one step: hour_ridge.h says of what.

#include <span>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon/hour_ridge.h"

namespace harpe {

class RidgeFeatures {
 public:
  RidgeFeatures(const HourRidgeOptions& options, const ForecastGrid& grid,
                const ExogenousSeries* exogenous);

  std::size_t count() const { return count_; }
  /// The first step at which all of it is known.
  std::size_t first_step() const { return first_step_; }
  /// Writes count() numbers for step `i` >= first_step() of the history. It reads no value after
  /// step i, of exogenous ones none after i + known_ahead.
  void write(const LogHistory& history, std::size_t i, std::span<double> x);

 private:
  void scale_exogenous(std::size_t steps);

  std::vector<std::size_t> lags_;                ///< in steps
  std::vector<std::ptrdiff_t> exogenous_steps_;  ///< relative to i
  std::vector<std::vector<double>> exogenous_;   ///< without gaps
  std::size_t day_, count_, first_step_;
  double center_ = 0;
  bool centered_ = false;
};

}  // namespace harpe
