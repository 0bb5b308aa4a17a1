#pragma once
/// \file
/// The forecast of Harpe: what the others in this room make together.
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

/// Of step k + 1 after the newest value: the median, and an interval of 80 % of what comes. g/kWh.
struct IntensityForecast {
  std::vector<double> expected;
  std::vector<double> lower, upper;  ///< NaN while too little is known of errors
};

/// Combines the same hour of yesterday, a weekly profile, persistence and two ridge regressions
/// (hour_ridge.h), with conformal intervals. Needs one value to say anything, a day for an hour's
/// own level, about three weeks for the regressions. Memory: a few MB, and all values seen.
///
/// Hourly, 96 h ahead: about 0.2 ms a value. Not thread safe; the same values give the same bytes.
class IntensityForecaster {
 public:
  /// \param exogenous  may be null; index 0 is the first value observed; must outlive this
  explicit IntensityForecaster(const ForecastGrid& grid,
                               const ExogenousSeries* exogenous = nullptr);

  /// The next value of the grid; NaN where it is not known.
  void observe(double grams_per_kwh);
  /// After the newest value; nullopt before there is one that is known.
  const std::optional<IntensityForecast>& forecast() const { return forecast_; }
  const Combination& combination() const { return combination_; }

 private:
  ForecastGrid grid_;
  LogHistory history_;
  Combination combination_;
  ConformalIntervals intervals_;
  std::optional<IntensityForecast> forecast_;
  bool seen_negative_ = false;  ///< else no forecast is below 0
};

}  // namespace harpe::carbon
