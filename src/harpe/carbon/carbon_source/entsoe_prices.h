#pragma once
/// \file
/// Day-ahead prices of ENTSO-E (A44) as XML.
///
/// A Publication_MarketDocument has TimeSeries, each of one auction, currency and day, with Periods
/// of Points (entsoe_xml.h). Areas with several auctions number them by
/// classificationSequence: 1 is the coupled one of all of Europe (SDAC), 2 in Germany and Austria
/// that of EXAA, in the morning. Of each interval the lowest number that tells of it counts; of one
/// number hourly prices before quarter-hourly ones, which were another auction's before 2025-10.
/// Prices of intraday auctions (contract_MarketAgreement.type A07) are left out.
///
/// A price is money a MWh, in the currency that the document names, and may be negative. It is of
/// IntensityKind::kPrice, which joins with no intensity.
/// Source: ENTSO-E, Transparency Platform, RESTful API, user guide, 12.1.D.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

struct DayAheadPrices {
  ProviderIntensity prices;  ///< money a MWh, of kind kPrice
  std::string money;         ///< "EUR"
};

/// Fails on what is no such document, on another unit than MWh, on prices in several currencies,
/// on points outside of their period, on prices that are no numbers, and on a document over a
/// million points. An interval less than half covered is unknown. O(points).
/// \param step  divides a day; finer prices are averaged, coarser ones repeated
/// \param zone  of which was asked, an EIC
Result<DayAheadPrices> parse_entsoe_prices(std::string_view xml, WholeSeconds step,
                                           const std::string& zone);

}  // namespace harpe::carbon
