#pragma once
/// \file
/// How good forecasts of a recorded series would have been.
///
/// A forecast is made after each value, from that value and those before it alone, and compared
/// with what came. **Horizon** h is the interval that ends h hours after the newest known one: of
/// hourly values, horizon 1 is the next hour.
///
/// **The same-hour-yesterday rule**, which every forecast is measured by: for a horizon up to 24 h
/// it forecasts the value 24 h before the target, which is known when the forecast is made; beyond
/// that, the value at the same hour of the newest day on which that hour is known: 48 h before the
/// target up to 48 h ahead, and so on.
///
/// An error is a percentage of the value that came (of 1 g/kWh where that is less). Targets that
/// are gaps are not judged, nor are those for which the rule or the forecast has nothing to say.

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

/// Horizons in hours whose mean is the figure that stands for all.
inline constexpr std::array<int, 6> kJudgedHorizons{1, 3, 6, 12, 18, 24};
inline constexpr int kFarthestHorizon = 96;

struct BacktestOptions {
  std::vector<int> horizons = {1, 3, 6, 12, 18, 24, 48, 72, 96};  ///< hours, ascending
  int issue_every = 1;  ///< hours between the forecasts that are judged, 1 to 24
};

/// Sums over judged forecasts.
struct ForecastFigures {
  std::size_t forecasts = 0;
  double percentage_error = 0;  ///< mean absolute, of the combination
  double same_hour_error = 0;   ///< the same of the same-hour-yesterday rule
  double persistence_error = 0;
  double absolute_error = 0;  ///< g/kWh, mean
  double bias = 0;            ///< g/kWh, mean of forecast minus value
  std::size_t intervals = 0;  ///< forecasts that had an interval
  double coverage = 0;        ///< share of values within it, both ends counted in
  double width = 0;           ///< g/kWh, mean
  /// g/kWh, mean over intervals of the pinball loss at 10, 50 and 90 %, half of which at 50 % is
  /// the absolute error.
  double pinball = 0;

  /// Below 1: better than the rule.
  double over_same_hour() const {
    return same_hour_error > 0 ? percentage_error / same_hour_error : 0;
  }
};

struct BacktestResult {
  std::map<int, ForecastFigures> by_horizon;        ///< of those asked for and those judged
  std::map<std::string, ForecastFigures> by_month;  ///< over the judged horizons, by target
  std::map<std::string, std::map<int, double>> coverage_by_month;
  /// Of each member of the combination: by horizon its error over the rule's, where it was one.
  std::map<std::string, std::map<int, double>> members;
  /// Mean over the judged horizons of error over the rule's.
  double mean_over_same_hour = 0;
  std::size_t gaps = 0, estimates = 0;  ///< of the judged series
};

/// Rolls over `series` after `earlier` (may be null), which is learned from and not judged; they
/// must fit together (joined()). Fails where the horizons are not within 1 to 96 hours or no whole
/// steps, the step is over 6 hours or below 15 minutes, the series is shorter than two days, or
/// exogenous values are not as long as both series.
/// \param exogenous  on the grid of both series joined; may be null
/// \param progress   told the fraction done, now and then; may be empty
Result<BacktestResult> backtest(const carbon::IntensitySeries& series,
                                const carbon::IntensitySeries* earlier,
                                const carbon::ExogenousSeries* exogenous,
                                const BacktestOptions& options,
                                const std::function<void(double)>& progress = {});

}  // namespace harpe::lab
