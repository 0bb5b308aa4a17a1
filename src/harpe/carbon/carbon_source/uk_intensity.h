#pragma once
/// \file
/// Parser of the Carbon Intensity API of Great Britain, for the country and its 17 regions.
///
///     {"data": [{"from": "2018-01-20T12:00Z", "to": "2018-01-20T12:30Z",
///                "intensity": {"forecast": 266, "actual": 263, "index": "moderate"}}]}
///
/// A region's values are one level deeper, in "data" of an object or of a list with one element, or
/// in "regions" of each half hour. Values are averages over half hours in gCO2/kWh, direct.
/// Source: the API's own definition (National Energy System Operator, CC BY 4.0).

#include <optional>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

inline constexpr int kUkRegions = 17;

struct UkAsked {
  std::optional<int> region = {};  ///< 1 to kUkRegions; nullopt for the whole country
  /// True to read forecast instead of measured values. Measured values that are null, and all
  /// values of regions, are taken from the forecast and marked as estimated.
  bool forecast = false;
};

Result<ProviderIntensity> parse_uk_intensity(std::string_view json, const UkAsked& asked);

/// Returns "GB", or a region such as "GB-13".
std::string uk_zone(std::optional<int> region);

}  // namespace harpe::carbon
