#pragma once
/// \file
/// Answers of the Electricity Maps API, versions 3 and 4: latest, history, past-range, forecast.
///
///     {"zone": "DE", "carbonIntensity": 302, "datetime": "2026-01-01T10:00:00.000Z", "updatedAt":
///     ...,
///      "emissionFactorType": "lifecycle", "isEstimated": true, "temporalGranularity": "hourly"}
///     {"zone": "DE", "history": [{...}]}   version 4 also "data"
///     {"zone": "DE", "forecast": [{"carbonIntensity": 310, "datetime": ...}], "updatedAt": ...}
///
/// gCO2eq/kWh, averages. Members that are not known are passed over.
/// Source: the provider's documentation of its API.

#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

struct ElectricityMapsOptions {
  std::string zone = {};
  IntensityKind kind = IntensityKind::kAverageLifecycle;  ///< or kAverageDirect
  std::string version = "v3";                             ///< or "v4"
  WholeSeconds step{3600};
  bool estimations = true;  ///< false: values that are measured alone
};

/// An answer of another zone or emission factor type than was asked for is an error: what was asked
/// for has one kind, and kinds never mix.
Result<ProviderIntensity> parse_electricity_maps(std::string_view json,
                                                 const ElectricityMapsOptions& asked);

/// "hourly", "15_minutes" or "5_minutes": what the API calls a step; "" where it has no word.
std::string_view electricity_maps_granularity(WholeSeconds step);

}  // namespace harpe::carbon
