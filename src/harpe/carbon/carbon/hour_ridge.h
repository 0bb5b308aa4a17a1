#pragma once
/// \file
/// Ridge regressions for every horizon and each hour of the day at which a forecast may be made.
///
/// Model. At step i of slot a (hour of the day), the logarithm k steps later is
///
///     profile(i, k) + w(a, k) . x(i)
///
/// with x(i): the deviations of recent values from their day's mean, that mean, sines and cosines
/// of the week (periods 7, 3.5 and 2.33 days: at one hour of the day equivalent to one level per
/// weekday), exogenous values and 1. `profile` is yesterday's value, or weekly_profile(). The
/// weights minimise
///
///     sum over past steps j of K(slot(j) - a) m(j) r(j) |y(j + k) - profile(j, k) - w . x(j)|^2 +
///     lambda |w|^2
///
/// where K is Gaussian in hours around the day's circle: morning values predict the afternoon in
/// another way than evening values predict the night, but neighbouring hours are similar. K is
/// wider while there is little history. m halves every two years; r is below 1 for steps that the
/// fit of their time missed by far (Huber), such as a day on which plants were off.
///
/// Sums of products are kept for each slot, so a step costs O(p^2 + p horizon) for any length of
/// history, and a fit O(p^3 + p^2 horizon) for one slot, once a week (more often in the first
/// months). A step is learned after its whole horizon has passed.
///
/// Source: house-made; local (kernel-weighted) regression as in Cleveland and Devlin 1988, day-wise
/// models of electricity demand as in Ramanathan et al. 1997.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

struct HourRidgeOptions {
  std::string name = "ridge";
  std::vector<int> lag_hours = {};  ///< ascending, from 0 = the newest value
  bool weekly_profile = false;      ///< use weekly_profile(); else yesterday's value
  double bandwidth_hours = 1.5;     ///< of K, with over 240 days of history
  double lambda = 0.1;
  double huber = 5;  ///< in mean absolute residuals; 0: all steps have equal weight
};

/// The features x(i) of the model above.
class RidgeFeatures {
 public:
  RidgeFeatures(const HourRidgeOptions& options, const ForecastGrid& grid,
                const ExogenousSeries* exogenous);

  std::size_t count() const { return count_; }
  /// Returns the first step whose features are all known.
  std::size_t first_step() const { return first_step_; }
  /// Writes count() features for step `i` >= first_step() of the history. Reads no value after step
  /// i, and no exogenous value after i + known_ahead.
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

/// Returns options that use the newest two days hour by hour, and the forecast's hour in the week
/// before.
HourRidgeOptions narrow_ridge();
/// Returns options that use the newest three days, and the hours around the forecast's hour in the
/// week before; wider K.
HourRidgeOptions wide_ridge();

/// \param exogenous  may be null; index 0 is the first value that will be observed. Must outlive
///                   the forecaster.
std::unique_ptr<Forecaster> make_hour_ridge(const HourRidgeOptions& options,
                                            const ForecastGrid& grid,
                                            const ExogenousSeries* exogenous = nullptr);

}  // namespace harpe::carbon
