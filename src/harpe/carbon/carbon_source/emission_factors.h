#pragma once
/// \file
/// Emissions per kilowatt-hour of each type of power plant, for sources that report only
/// generation.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::carbon {

struct EmissionFactor {
  std::string type = {};  ///< ENTSO-E's production type, such as "B04"
  std::string name = {};  ///< such as "fossil gas"
  /// g/kWh, life cycle; nullopt to exclude the type from both sums, as if it had the average.
  std::optional<double> grams_per_kwh = {};
};

/// Returns life-cycle medians of IPCC AR5 WG3 annex III (2014) for the plants that it contains:
/// coal 820, gas 490, biomass 230, photovoltaics 45, geothermal 38, hydro 24, ocean 17, nuclear and
/// offshore wind 12, onshore wind 11. Oil 650 is a common assumption; lignite, oil shale, peat and
/// coal gas count as coal. Storage, waste, other renewables and other are excluded. Users may set
/// every factor.
std::vector<EmissionFactor> default_emission_factors();

/// Parses changes of the defaults: "B04=370,B17=none", or one "B04=370" per line, with `#`
/// comments. Fails on unknown types, duplicate types, and values outside 0 to 3000.
Result<std::vector<EmissionFactor>> parse_emission_factors(std::string_view text);

/// Returns "B04 fossil gas 490, ...", for reports.
std::string emission_factors_text(const std::vector<EmissionFactor>& factors);

}  // namespace harpe::carbon
