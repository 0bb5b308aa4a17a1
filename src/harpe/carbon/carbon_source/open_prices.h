#pragma once
/// \file
/// Day-ahead prices of a source, asked for at once.

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/entsoe_prices.h"
#include "harpe/carbon/carbon_source/open_source.h"

namespace harpe {

/// Of `entsoe:EIC`, in intervals of its step: [from, to), as far as they are published, which is to
/// the end of tomorrow from the afternoon on. Fails with kNotSupported for sources that have no
/// prices, and offline; else as fetch_entsoe_prices.
Result<DayAheadPrices> day_ahead_prices(const SourceSpecification& source,
                                        const SourceEnvironment& environment, UtcTime from,
                                        UtcTime to);

}  // namespace harpe
