#pragma once
/// \file
/// Backtest of forecasts on a recorded series.
///
/// A forecast is made after each value, only from that value and those before it, and compared with
/// the actual values. **Horizon** h is the interval that ends h hours after the newest known one:
/// with hourly values, horizon 1 is the next hour.
///
/// **The same-hour-yesterday rule** is the baseline of every forecast. For a horizon up to 24 h it
/// forecasts the value 24 h before the target, which is known when the forecast is made. Beyond
/// that, it forecasts the value at the same hour of the newest day on which that hour is known: 48
/// h before the target up to 48 h ahead, and so on.
///
/// An error is a percentage of the actual value (of 1 g/kWh if that is less). Targets that are gaps
/// are not judged, nor are targets without a value of the rule or of the forecast.

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_forecaster.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::lab {

/// Horizons in hours over which the overall mean is taken.
inline constexpr std::array<int, 6> kJudgedHorizons{1, 3, 6, 12, 18, 24};
inline constexpr int kFarthestHorizon = 96;

struct BacktestOptions {
  std::vector<int> horizons = {1, 3, 6, 12, 18, 24, 48, 72, 96};  ///< hours, ascending
  int issue_every = 1;  ///< hours between judged forecasts, 1 to 24
};

/// Sums over judged forecasts.
struct ForecastFigures {
  std::size_t forecasts = 0;
  double percentage_error = 0;  ///< mean absolute, of the combination
  double same_hour_error = 0;   ///< mean absolute, of the same-hour-yesterday rule
  double persistence_error = 0;
  double absolute_error = 0;  ///< g/kWh, mean
  double bias = 0;            ///< g/kWh, mean of forecast minus value
  std::size_t intervals = 0;  ///< forecasts that had an interval
  double coverage = 0;        ///< share of values within it, ends included
  double width = 0;           ///< g/kWh, mean
  /// g/kWh, mean over intervals of the pinball loss at 10, 50 and 90 %. At 50 % it is half the
  /// absolute error.
  double pinball = 0;

  /// Returns the error over that of the rule; below 1 the forecast is better.
  double over_same_hour() const {
    return same_hour_error > 0 ? percentage_error / same_hour_error : 0;
  }
};

struct BacktestResult {
  std::map<int, ForecastFigures> by_horizon;        ///< requested and judged horizons
  std::map<std::string, ForecastFigures> by_month;  ///< over the judged horizons, by target
  std::map<std::string, std::map<int, double>> coverage_by_month;
  /// For each member of the combination: its error over the rule's by horizon, if it took part.
  std::map<std::string, std::map<int, double>> members;
  /// Mean over the judged horizons of the error over the rule's.
  double mean_over_same_hour = 0;
  std::size_t gaps = 0, estimates = 0;  ///< of the judged series
};

/// Makes forecasts over `series` after `earlier` (may be null), which is only learned from; the two
/// must fit together (joined()). Fails if horizons are not whole steps within 1 to 96 hours, the
/// step is not within 15 minutes to 6 hours, the series is shorter than two days, or exogenous
/// values are not as long as both series.
/// \param exogenous  on the grid of both series joined; may be null
/// \param progress   called regularly with the completed share; may be empty
Result<BacktestResult> backtest(const carbon::IntensitySeries& series,
                                const carbon::IntensitySeries* earlier,
                                const carbon::ExogenousSeries* exogenous,
                                const BacktestOptions& options,
                                const std::function<void(double)>& progress = {});

}  // namespace harpe::lab
