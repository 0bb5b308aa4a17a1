#pragma once
/// \file
/// The intensities of a past time that an account is made with, each with the step of the ladder
/// that it stands on, and what a reader has to know of where they come from.

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
  std::string data_source = {};  ///< as the provider names it: "Ember, yearly mean of ..."
  std::string method = {};       ///< `CarbonSource::method`
  /// When the first and the last of the values were fetched; none: it is not known.
  std::optional<UtcTime> fetched_from = {}, fetched_to = {};
  std::vector<std::string> notes = {};
};

/// Asks for [from, to), widened to whole intervals, and for the week before where a gap needs it.
/// Fails where there is no value at all, with what the source said: where it does not answer, the
/// yearly mean that the user gave with it stands in, with a note.
Result<AccountingIntensity> accounting_intensity(CarbonSource& source,
                                                 const SourceSpecification& specification,
                                                 UtcTime from, UtcTime to);

// A single carbon intensity for estimates of future work, from any source.

/// Longest history that is requested from a provider.
inline constexpr WholeSeconds kLongestMean = whole_days(31);

/// Returns the value of a constant source, the mean of all values of a file, or the mean of a
/// provider's values over the `past` until now (at most `kLongestMean`). `source` of the result
/// names that time and the number of known values. Fails with the source's error if it has no
/// value.
Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past);

}  // namespace harpe::carbon
