#pragma once
/// \file
/// A backtest of forecasts as a table, as JSON and as CSV.

#include <optional>
#include <string>

#include "harpe/carbon/carbon/backtest.h"
#include "harpe/carbon/carbon/chase_forecast.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe {

struct BacktestView {
  std::string file, train_file;  ///< empty: not given
  IntensitySeries series;
  BacktestOptions options;
  BacktestResult result;
  std::optional<BacktestResult> without_exogenous;  ///< where exogenous values were given
  std::optional<ChaseForecast> chase;
};

std::string backtest_text(const BacktestView& view, bool coloured);
std::string backtest_json(const BacktestView& view);
/// A line a horizon.
std::string backtest_csv(const BacktestView& view);

}  // namespace harpe
