#pragma once
/// \file
/// Answers of the Carbon Intensity API of Great Britain, for the country and its 17 regions.
///
///     {"data": [{"from": "2018-01-20T12:00Z", "to": "2018-01-20T12:30Z",
///                "intensity": {"forecast": 266, "actual": 263, "index": "moderate"}}]}
///
/// A region's values stand one level deeper, in "data" of an object or of a list with one, or in
/// "regions" of each half hour. gCO2/kWh of half hours, average, direct.
/// Source: the API's own definition (National Energy System Operator, CC BY 4.0).

#include <optional>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

inline constexpr int kUkRegions = 17;

struct UkAsked {
  std::optional<int> region = {};  ///< 1 to kUkRegions; nullopt: the whole country
  /// What was forecast, in place of what was measured. Measured values that are null, and all of
  /// regions, are taken from the forecast and flagged as estimated.
  bool forecast = false;
};

Result<ProviderIntensity> parse_uk_intensity(std::string_view json, const UkAsked& asked);

/// "GB", or "GB-13".
std::string uk_zone(std::optional<int> region);

}  // namespace harpe::carbon
