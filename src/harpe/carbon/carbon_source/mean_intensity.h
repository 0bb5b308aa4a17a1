#pragma once
/// \file
/// A single carbon intensity for estimates of future work, from any source.

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"

namespace harpe::carbon {

/// Longest history that is requested from a provider.
inline constexpr WholeSeconds kLongestMean = whole_days(31);

/// Returns the value of a constant source, the mean of all values of a file, or the mean of a
/// provider's values over the `past` until now (at most `kLongestMean`). `source` of the result
/// names that time and the number of known values. Fails with the source's error if it has no
/// value.
Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past);

}  // namespace harpe::carbon
