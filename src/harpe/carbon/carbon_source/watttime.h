#pragma once
/// \file
/// Parser of the WattTime API, version 3.
///
///     {"data": [{"point_time": "2026-01-01T00:00:00+00:00", "value": 870.0}],
///      "meta": {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units": "lbs_co2_per_mwh",
///               "data_point_period_seconds": 300, "generated_at": "..."}}
///
/// The unit is given in "meta" and converted to g/kWh; an unknown unit is an error. co2_moer is
/// marginal. co2_aoer is an average of stack emissions, so direct.
/// Source: the provider's documentation of its API.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

struct WattTimeAsked {
  std::string region = {};
  std::string signal = "co2_moer";  ///< or "co2_aoer"
};

/// Returns the kind of a signal; kUnstated for a signal that is not in grams of CO2, such as
/// health_damage.
IntensityKind watttime_kind(std::string_view signal);

/// Returns the token in the response to a login.
Result<std::string> parse_watttime_login(std::string_view json);

/// Parses measured values, or the newest forecast, whose `issued_at` is its time of generation.
Result<ProviderIntensity> parse_watttime(std::string_view json, const WattTimeAsked& asked);

}  // namespace harpe::carbon
