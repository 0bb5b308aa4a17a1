#pragma once
/// \file
/// Answers of the WattTime API, version 3.
///
///     {"data": [{"point_time": "2026-01-01T00:00:00+00:00", "value": 870.0}],
///      "meta": {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units": "lbs_co2_per_mwh",
///               "data_point_period_seconds": 300, "generated_at": "..."}}
///
/// The unit stands in "meta" and is converted to g/kWh; one that is not known is an error.
/// co2_moer is marginal. co2_aoer is an average of chimneys, so direct.
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

/// kUnstated for a signal that gives no grams of CO2, such as health_damage.
IntensityKind watttime_kind(std::string_view signal);

/// The token of the answer to a login.
Result<std::string> parse_watttime_login(std::string_view json);

/// Measured values, or the newest forecast, of which `issued_at` is the time it was generated.
Result<ProviderIntensity> parse_watttime(std::string_view json, const WattTimeAsked& asked);

}  // namespace harpe::carbon
