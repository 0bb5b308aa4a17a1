#pragma once
/// \file
/// The providers, each as an IntensitySource over a link. A link has to outlive what is made of it.

#include <memory>
#include <string>
#include <vector>

#include "harpe/carbon/carbon_source/electricity_maps.h"
#include "harpe/carbon/carbon_source/emission_factors.h"
#include "harpe/carbon/carbon_source/entsoe.h"
#include "harpe/carbon/carbon_source/entsoe_prices.h"
#include "harpe/carbon/carbon_source/intensity_source.h"
#include "harpe/carbon/carbon_source/source_link.h"
#include "harpe/carbon/carbon_source/watttime.h"

namespace harpe::carbon {

/// What all providers need.
struct ProviderAccess {
  std::string url = {};    ///< base URL without a slash at its end; empty: the provider's own
  std::string token = {};  ///< of WattTime "user:password"
  UtcNow now = {};
};

/// History beyond the last 24 h comes in calls of 10 days each; forecasts reach up to 72 h.
std::unique_ptr<IntensitySource> make_electricity_maps(SourceLink& link, ProviderAccess access,
                                                       ElectricityMapsOptions options);

/// Logs in with the first call, and once again where a token is refused.
std::unique_ptr<IntensitySource> make_watttime(SourceLink& link, ProviderAccess access,
                                               WattTimeAsked asked);

/// \param region  1 to 17; nullopt: the whole country
std::unique_ptr<IntensitySource> make_uk(SourceLink& link, ProviderAccess access,
                                         std::optional<int> region);

/// Generation with own emission factors; it has no forecast of intensity, but what feeds one.
class EntsoeSource : public IntensitySource {
 public:
  enum class DayAhead : unsigned char { kLoad, kWindAndSolar };
  virtual Result<PowerSeries> day_ahead(DayAhead what, UtcTime from, UtcTime to) = 0;
};
/// \param zone  the area's EIC, such as 10Y1001A1001A82H
std::unique_ptr<EntsoeSource> make_entsoe(SourceLink& link, ProviderAccess access, std::string zone,
                                          WholeSeconds step, std::vector<EmissionFactor> factors);

/// Day-ahead prices of [from, to), tomorrow's too where they are published, in calls of a month.
/// kNotFound where there is none; a month without any is left out. They have no ladder and no
/// cache: what they are for is to be planned with at once.
Result<DayAheadPrices> fetch_entsoe_prices(SourceLink& link, const ProviderAccess& access,
                                           const std::string& zone, WholeSeconds step, UtcTime from,
                                           UtcTime to);

/// A series that has been read: what lies before `now` is history, and what lies after it the
/// provider's forecast. Fails where the series has no known value.
/// \param read_at  when the series was last found to be up to date, by which all answers are dated
Result<std::unique_ptr<IntensitySource>> make_series_source(std::string provider,
                                                            IntensitySeries series, UtcNow now,
                                                            UtcNow read_at);

/// Calls `fetch(begin, end)` for parts of [from, to) no longer than `longest`, and merges what
/// comes. A part without data (kNotFound) is left out, unless all are.
Result<ProviderIntensity> fetch_in_parts(
    UtcTime from, UtcTime to, WholeSeconds longest,
    const std::function<Result<ProviderIntensity>(UtcTime, UtcTime)>& fetch);

}  // namespace harpe::carbon
