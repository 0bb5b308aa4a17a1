#pragma once
/// \file
/// The providers as IntensitySource objects. Each uses a link that must outlive it.

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

/// The access data that all providers need.
struct ProviderAccess {
  std::string url = {};    ///< base URL without a final slash; empty for the provider's own
  std::string token = {};  ///< for WattTime "user:password"
  UtcNow now = {};
};

/// Returns the source of Electricity Maps. Requests history before the last 24 h in parts of 10
/// days; forecasts extend up to 72 h.
std::unique_ptr<IntensitySource> make_electricity_maps(SourceLink& link, ProviderAccess access,
                                                       ElectricityMapsOptions options);

/// Returns the source of WattTime. It logs in with the first request, and once again if a token is
/// refused.
std::unique_ptr<IntensitySource> make_watttime(SourceLink& link, ProviderAccess access,
                                               WattTimeAsked asked);

/// \param region  1 to 17; nullopt for the whole country
std::unique_ptr<IntensitySource> make_uk(SourceLink& link, ProviderAccess access,
                                         std::optional<int> region);

/// A source computed from generation and emission factors. It has no forecast of intensity, but the
/// day-ahead data for one.
class EntsoeSource : public IntensitySource {
 public:
  enum class DayAhead : unsigned char { kLoad, kWindAndSolar };
  virtual Result<PowerSeries> day_ahead(DayAhead what, UtcTime from, UtcTime to) = 0;
};
/// \param zone  the area's EIC, such as 10Y1001A1001A82H
std::unique_ptr<EntsoeSource> make_entsoe(SourceLink& link, ProviderAccess access, std::string zone,
                                          WholeSeconds step, std::vector<EmissionFactor> factors);

/// Fetches day-ahead prices of [from, to), including tomorrow's if they are published, in requests
/// of a month. kNotFound if there are none; a month without prices is omitted. Prices have no
/// ladder and no cache, because they are used for planning at once.
Result<DayAheadPrices> fetch_entsoe_prices(SourceLink& link, const ProviderAccess& access,
                                           const std::string& zone, WholeSeconds step, UtcTime from,
                                           UtcTime to);

/// Returns a source for a series that has been read: values before `now` are its history, later
/// values its forecast. Fails if the series has no known value.
/// \param read_at  when the series was last found to be up to date: the fetch time of all responses
Result<std::unique_ptr<IntensitySource>> make_series_source(std::string provider,
                                                            IntensitySeries series, UtcNow now,
                                                            UtcNow read_at);

/// Calls `fetch(begin, end)` for parts of [from, to) no longer than `longest`, and merges the
/// results. A part without data (kNotFound) is omitted, unless all parts are.
Result<ProviderIntensity> fetch_in_parts(
    UtcTime from, UtcTime to, WholeSeconds longest,
    const std::function<Result<ProviderIntensity>(UtcTime, UtcTime)>& fetch);

}  // namespace harpe::carbon
