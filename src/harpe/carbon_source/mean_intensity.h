#pragma once
/// \file
/// One carbon intensity for a time to come, from any source.

#include "harpe/base/result.h"
#include "harpe/carbon_source/accounting_intensity.h"

namespace harpe {

/// Longest time of the past that a provider is asked for.
inline constexpr WholeSeconds kLongestMean = whole_days(31);

/// Returns the number or yearly mean of a constant source, the mean of all values of a file, and of
/// a provider the mean over the `past` until now, at most `kLongestMean`. `source` of the result
/// names the time and how many values are known. Fails where no value is to be had, with what the
/// source said.
Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past);

}  // namespace harpe
