#pragma once
/// \file
/// The past accuracy of a source's forecasts: forecasts made at the same time of the day over the
/// last year, as issued, and the measured values.

#include <cstddef>
#include <vector>

#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {

struct EarlierForecast {
  std::size_t days = 0;  ///< number of days before the current forecast
  IntensitySeries said = {};
};

/// All series are on the grid of the current forecast.
struct ForecastRecord {
  std::vector<EarlierForecast> earlier = {};  ///< newest first, at most one per day
  IntensitySeries measured = {};              ///< with gaps; empty if nothing is known
};

}  // namespace harpe::carbon
