#pragma once
/// \file
/// Harpe's forecaster of carbon intensity, which combines the other forecasters of this room.
///
///   harpe::carbon::IntensityForecaster forecaster({.slots_per_day = 24, .horizon = 96});
///   for (const double grams : measured) forecaster.observe(grams);
///   if (const auto next = forecaster.forecast()) plan(next->expected, next->lower, next->upper);

#include <memory>
#include <optional>
#include <vector>

#include "harpe/carbon/carbon/combination.h"
#include "harpe/carbon/carbon/conformal.h"
#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// A forecast in g/kWh: for step k + 1 after the newest value, the median and an 80 % interval.
struct IntensityForecast {
  std::vector<double> expected;
  std::vector<double> lower, upper;  ///< NaN while too few errors are known
};

/// A combination of the same hour of yesterday, a weekly profile, persistence and two ridge
/// regressions (hour_ridge.h), with conformal intervals. It needs one value for any forecast, a day
/// for hourly levels, and about three weeks for the regressions. Memory: a few MB, plus all
/// observed values.
///
/// Hourly, 96 h ahead: about 0.2 ms per value. Not thread-safe; the same values give the same
/// bytes.
class IntensityForecaster {
 public:
  /// \param exogenous  may be null; index 0 is the first observed value; must outlive this
  explicit IntensityForecaster(const ForecastGrid& grid,
                               const ExogenousSeries* exogenous = nullptr);

  /// Adds the next value of the grid; NaN if unknown.
  void observe(double grams_per_kwh);
  /// Returns the forecast after the newest value; nullopt before the first known value.
  const std::optional<IntensityForecast>& forecast() const { return forecast_; }
  const Combination& combination() const { return combination_; }

 private:
  ForecastGrid grid_;
  LogHistory history_;
  Combination combination_;
  ConformalIntervals intervals_;
  std::optional<IntensityForecast> forecast_;
  bool seen_negative_ = false;  ///< if false, no forecast is below 0
};

}  // namespace harpe::carbon
