#include "harpe/carbon/carbon_source/open_prices.h"

#include "harpe/carbon/carbon_source/provider_link.h"
#include "harpe/carbon/carbon_source/provider_sources.h"

namespace harpe {

Result<DayAheadPrices> day_ahead_prices(const SourceSpecification& source,
                                        const SourceEnvironment& environment, UtcTime from,
                                        UtcTime to) {
  if (source.provider != SourceSpecification::Provider::kEntsoe) {
    return Error::of(ErrorCode::kNotSupported,
                     "prices come from entsoe:EIC alone; for others, give a file to harpe carbon "
                     "simulate --price");
  }
  if (environment.offline) {
    return Error::of(ErrorCode::kNotSupported, "prices are not kept: there are none offline");
  }
  const auto fetcher = HARPE_TRY(HttpFetcher::open());
  const ProviderAccess access{
      .url = source.url,
      .token = HARPE_TRY(find_api_token(entsoe_token_names(), environment.variable)),
      .now = environment.now};
  SourceLink link(*fetcher, environment.clock, environment.now, entsoe_link_options(environment));
  return fetch_entsoe_prices(link, access, source.zone, source.step, from, to);
}

}  // namespace harpe
