#pragma once
/// \file
/// What a source's forecasts were worth: those that were made at the same time of the day over the
/// last year, as they were issued, and what was measured.

#include <cstddef>
#include <vector>

#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {

struct EarlierForecast {
  std::size_t days = 0;  ///< before the present one
  IntensitySeries said = {};
};

/// All on the grid of the present forecast.
struct ForecastRecord {
  std::vector<EarlierForecast> earlier = {};  ///< the newest first, one a day at most
  IntensitySeries measured = {};              ///< with gaps; empty where there is nothing
};

}  // namespace harpe::carbon
