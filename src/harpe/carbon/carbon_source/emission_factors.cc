#include "harpe/carbon/carbon_source/emission_factors.h"

#include <algorithm>
#include <set>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity.h"

namespace harpe::carbon {

std::vector<EmissionFactor> default_emission_factors() {
  return {{"B01", "biomass", 230},
          {"B02", "lignite", 820},
          {"B03", "gas from coal", 820},
          {"B04", "fossil gas", 490},
          {"B05", "hard coal", 820},
          {"B06", "oil", 650},
          {"B07", "oil shale", 820},
          {"B08", "peat", 820},
          {"B09", "geothermal", 38},
          {"B10", "pumped storage", std::nullopt},
          {"B11", "run-of-river hydro", 24},
          {"B12", "hydro reservoir", 24},
          {"B13", "marine", 17},
          {"B14", "nuclear", 12},
          {"B15", "other renewable", std::nullopt},
          {"B16", "solar", 45},
          {"B17", "waste", std::nullopt},
          {"B18", "offshore wind", 12},
          {"B19", "onshore wind", 11},
          {"B20", "other", std::nullopt},
          {"B25", "energy storage", std::nullopt}};
}

Result<std::vector<EmissionFactor>> parse_emission_factors(std::string_view text) {
  std::vector<EmissionFactor> factors = default_emission_factors();
  std::vector<std::string> types;
  for (const EmissionFactor& factor : factors) types.push_back(factor.type);
  std::set<std::string> seen;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    item = trim(item.substr(0, item.find('#')));
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return Error::invalid("expected a production type and its g/kWh such as B04=370, found " +
                            in_quotes(item));
    }
    const std::string type(trim(item.substr(0, equals)));
    const std::string_view value = trim(item.substr(equals + 1));
    const auto at = std::ranges::find(factors, type, &EmissionFactor::type);
    if (at == factors.end()) {
      const auto near = nearest(type, types);
      return Error::invalid("unknown production type " + in_quotes(type) +
                            (near ? "; did you mean " + *near + "?" : "; expected B01 to B25"));
    }
    if (!seen.insert(type).second)
      return Error::invalid("the production type " + type + " is given twice");
    const auto grams = parse_number(value);
    if (value == "none") {
      at->grams_per_kwh.reset();
    } else if (grams && *grams > 0 && *grams < kLooksLikeKilograms) {
      return Error::invalid("a factor of " + in_quotes(value) + " g/kWh for " + type +
                            " looks like kg/kWh: give " + shortest(*grams * 1000));
    } else if (grams && *grams >= 0 && *grams <= 3000) {
      at->grams_per_kwh = grams;
    } else {
      return Error::invalid("expected none, or g/kWh from 0 to 3000, for " + type + ", found " +
                            in_quotes(value));
    }
  }
  return factors;
}

std::string emission_factors_text(const std::vector<EmissionFactor>& factors) {
  std::string text;
  for (const EmissionFactor& factor : factors) {
    text += (text.empty() ? "" : ", ") + factor.type + " " + factor.name + " " +
            (factor.grams_per_kwh ? shortest(*factor.grams_per_kwh) : "left out");
  }
  return text;
}

}  // namespace harpe::carbon
