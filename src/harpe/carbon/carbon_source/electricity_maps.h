#pragma once
/// \file
/// Parser of the Electricity Maps API, versions 3 and 4: latest, history, past-range, forecast.
///
///     {"zone": "DE", "carbonIntensity": 302, "datetime": "2026-01-01T10:00:00.000Z",
///      "updatedAt": ..., "emissionFactorType": "lifecycle", "isEstimated": true,
///      "temporalGranularity": "hourly"}
///     {"zone": "DE", "history": [{...}]}   version 4 also "data"
///     {"zone": "DE", "forecast": [{"carbonIntensity": 310, "datetime": ...}], "updatedAt": ...}
///
/// Values are averages in gCO2eq/kWh. Unknown members are ignored.
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
  bool estimations = true;  ///< false to use only measured values
};

/// Parses a response. Fails if its zone or emission factor type differs from the request: a request
/// is for one kind, and kinds never mix.
Result<ProviderIntensity> parse_electricity_maps(std::string_view json,
                                                 const ElectricityMapsOptions& asked);

/// Returns the API's name of a step, "hourly", "15_minutes" or "5_minutes"; empty if it has none.
std::string_view electricity_maps_granularity(WholeSeconds step);

}  // namespace harpe::carbon
