#pragma once
/// \file
/// What a kilowatt-hour of each kind of power plant emits, for sources that tell generation alone.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::carbon {

struct EmissionFactor {
  std::string type = {};  ///< production type of ENTSO-E: "B04"
  std::string name = {};  ///< "fossil gas"
  /// g/kWh, life cycle; nullopt: left out of both sums, as if it were like all others.
  std::optional<double> grams_per_kwh = {};
};

/// Life-cycle medians of IPCC AR5 WG3 annex III (2014) where it has the plant: coal 820, gas 490,
/// biomass 230, photovoltaics 45, geothermal 38, hydro 24, ocean 17, nuclear and offshore wind 12,
/// onshore wind 11. Oil 650 is a common assumption; lignite, oil shale, peat and coal gas count as
/// coal. Storage, waste, other renewables and other are left out. Users may set every one.
std::vector<EmissionFactor> default_emission_factors();

/// The defaults with these instead: "B04=370,B17=none", or one "B04=370" a line, `#` comments.
/// Fails on unknown types, twice the same, and values outside 0 to 3000.
Result<std::vector<EmissionFactor>> parse_emission_factors(std::string_view text);

/// "B04 fossil gas 490, ...", for reports.
std::string emission_factors_text(const std::vector<EmissionFactor>& factors);

}  // namespace harpe::carbon
