#pragma once
/// \file
/// Parser of ENTSO-E's day-ahead prices (A44) in XML.
///
/// A Publication_MarketDocument has TimeSeries, each of one auction, currency and day, with Periods
/// of Points (entsoe_xml.h). Areas with several auctions number them by classificationSequence: 1
/// is the coupled auction of all of Europe (SDAC); 2 in Germany and Austria is the morning auction
/// of EXAA. For each interval the lowest number that has a price is used; within one number, hourly
/// prices take precedence over quarter-hourly ones, which belonged to another auction before
/// 2025-10. Prices of intraday auctions (contract_MarketAgreement.type A07) are ignored.
///
/// A price is money per MWh, in the document's currency, and may be negative. Its kind is
/// IntensityKind::kPrice, which is never combined with an intensity.
/// Source: ENTSO-E, Transparency Platform, RESTful API, user guide, 12.1.D.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

struct DayAheadPrices {
  ProviderIntensity prices;  ///< money per MWh, of kind kPrice
  std::string money;         ///< "EUR"
};

/// Parses a document. Fails on other documents, on units other than MWh, on prices in several
/// currencies, on points outside of their period, on prices that are not numbers, and on a document
/// with over a million points. An interval less than half covered is unknown. O(points).
/// \param step  divides a day; finer prices are averaged, coarser ones repeated
/// \param zone  the requested zone, an EIC
Result<DayAheadPrices> parse_entsoe_prices(std::string_view xml, WholeSeconds step,
                                           const std::string& zone);

}  // namespace harpe::carbon
