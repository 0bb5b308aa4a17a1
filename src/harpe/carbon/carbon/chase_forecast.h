#pragma once
/// \file
/// The forecaster of Chase (carbon-aware power limits on Zeus), as published, to be compared with.

#include <cstddef>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/support_vector.h"

namespace harpe {

/// One-step forecasts of the slots from `first` to the end of the series.
struct ChaseForecast {
  std::vector<double> expected;  ///< g/kWh, of slot first + i
  double percentage_error = 0;   ///< mean absolute, as a share
  double persistence_error = 0;  ///< the same of repeating the value before
};

/// Support vector regression on sine and cosine of the slot's place in the day, counted from the
/// start of the file, and the slot before's value; trained once, on the day before `first`. As
/// published, the value before the file's first slot is the file's last one: a look ahead, which
/// only a training day that begins with the file sees. Fails where that day or anything after it
/// has a gap, or `first` is not a whole day into the series and before its end.
///
/// Source: ml-energy/zeus, branch `chase` (2023): scikit-learn's SVR with C 100, gamma 1e-4.
Result<ChaseForecast> chase_forecast(const IntensitySeries& series, std::size_t first,
                                     const SupportVectorOptions& options = {});

}  // namespace harpe
