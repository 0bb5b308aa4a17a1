#pragma once
/// \file
/// The intensities of a past time for an account, each with its step of the ladder, and their
/// sources for the reader of a report.

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/carbon/carbon_source/open_source.h"

namespace harpe::carbon {

struct AccountingIntensity {
  AccountedSeries intensity = {};
  SourceIdentity identity = {};
  std::string data_source = {};  ///< the provider's name for it: "Ember, yearly mean of ..."
  std::string method = {};       ///< `CarbonSource::method`
  /// Earliest and latest fetch time of the values; nullopt if unknown.
  std::optional<UtcTime> fetched_from = {}, fetched_to = {};
  std::vector<std::string> notes = {};
};

/// Requests [from, to), widened to whole intervals, and the week before if a gap needs it. If the
/// source has no history, its current value and then the user's yearly mean are used instead, with
/// a note. Fails with the source's error if no value is available.
Result<AccountingIntensity> accounting_intensity(CarbonSource& source,
                                                 const SourceSpecification& specification,
                                                 UtcTime from, UtcTime to);

// A single carbon intensity for estimates of future work, from any source.

/// Limit on the history requested from a provider.
inline constexpr WholeSeconds kLongestMean = whole_days(31);

/// Returns the value of a constant source, the mean of all values of a file, or the mean of a
/// provider's values over the `past` until now (at most `kLongestMean`). `source` of the result
/// names that time and the number of known values. Fails with the source's error if it has no
/// value.
Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past);

}  // namespace harpe::carbon
