#pragma once
/// \file
/// Specification of a source of carbon intensity, as written by users and in configurations.
///
/// | text | source |
/// | --- | --- |
/// | `302.5` | a number in g/kWh, of unstated kind |
/// | `DE` | the yearly mean of a country (carbon/intensity.h) |
/// | `file:PATH` | a table (carbon/intensity_csv.h) |
/// | `electricity-maps:ZONE` | |
/// | `watttime:REGION` | |
/// | `uk`, `uk:13` | Great Britain, one of its 17 regions |
/// | `entsoe:EIC` | generation of an area, with emission factors |
///
/// Options follow the source as in a URL, `?name=value&name=value`:
///
/// | option | of | meaning |
/// | --- | --- | --- |
/// | `kind` | electricity-maps, file | life-cycle (default), direct; of a file also marginal |
/// | `version` | electricity-maps | v3 (default), v4 |
/// | `step` | electricity-maps, entsoe | minutes: 60 (default), 15; of electricity-maps also 5 |
/// | `estimations` | electricity-maps | yes (default), no |
/// | `signal` | watttime | co2_moer (default), co2_aoer |
/// | `factors` | entsoe | g/kWh of types, such as B04:370,B17:none |
/// | `zone`, `time`, `value`, `unit` | file | as `IntensityCsvOptions` |
/// | `exogenous` | all but numbers and means | a CSV file of weather, load, ... for own forecasts |
/// | `known-ahead` | with `exogenous` | how long before their time its values are known: 24h |
/// | `mean` | all but numbers and means | the zone's yearly mean in g/kWh: the last resort |
/// | `url` | providers | a base URL in place of the provider's own |
///
/// A source cannot contain a token: see api_token.h.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/carbon/carbon/intensity_csv.h"
#include "harpe/carbon/carbon_source/emission_factors.h"

namespace harpe::carbon {

struct SourceSpecification {
  enum class Provider : unsigned char {
    kConstant,  ///< a number or a yearly mean
    kFile,
    kElectricityMaps,
    kWattTime,
    kUk,
    kEntsoe
  };
  Provider provider = Provider::kConstant;
  std::string zone = {};          ///< zone, region or EIC
  CarbonIntensity constant = {};  ///< of kConstant
  std::string path = {};          ///< of kFile
  IntensityCsvOptions csv = {};   ///< of kFile
  std::optional<IntensityKind> kind = {};
  std::string version = "v3";
  std::string signal = "co2_moer";
  WholeSeconds step{3600};
  bool estimations = true;
  std::vector<EmissionFactor> factors = {};  ///< of kEntsoe
  std::optional<double> yearly_mean = {};
  std::string url = {};
  std::string exogenous = {};  ///< path; empty for none
  WholeSeconds known_ahead{0};
};

/// Parses a source. The error lists the possible sources and suggests the nearest one.
Result<SourceSpecification> parse_source(std::string_view text);

}  // namespace harpe::carbon
