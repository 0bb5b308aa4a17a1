#pragma once
/// \file
/// Parsed responses of providers of carbon intensity: values on a grid in g/kWh with their kind,
/// and notes on every irregularity.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon_source/utc_arithmetic.h"

namespace harpe::carbon {

struct ProviderIntensity {
  IntensitySeries series;
  /// For a forecast: the time at which the provider made it, if known.
  std::optional<UtcTime> issued_at = {};
  UtcTime fetched_at{};                 ///< set by the source, not by parsers
  std::vector<std::string> notes = {};  ///< on omitted values, for display
};

/// One value of a response, in the order of the response.
struct ProviderRow {
  UtcTime start{};
  double grams_per_kwh = kNoValue;  ///< NaN for null
  bool estimated = false;
  int line = 0, column = 0;  ///< in the response
};

/// The properties that all rows share.
struct ProviderRowsOf {
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};
  std::string source = {};
  std::optional<WholeSeconds> step = {};  ///< nullopt for the most frequent distance
};

/// Limit on the rows of one response.
inline constexpr std::size_t kMostProviderRows = 120'000;

/// Returns the rows, in any order, as a series. Equal values of one time count once; a value wins
/// over a null; two values of one time are an error that names both places. Missing times are gaps.
/// An impossible value (below 0 unless marginal, over 3000 g/kWh, not finite) is a gap with a note.
/// Fails if no value is left, if times are not on one grid, and above `kMostProviderRows`.
/// O(rows log rows).
Result<ProviderIntensity> series_of_rows(std::vector<ProviderRow> rows, const ProviderRowsOf& of);

/// Merges two responses on one grid; a value of `newer` replaces one of `older`. Kind and zone must
/// be equal. Gaps between them stay gaps; issued_at and fetched_at are taken from `newer`.
Result<ProviderIntensity> merged(const ProviderIntensity& older, const ProviderIntensity& newer);

/// Returns the part of the series in [from, to), widened to whole intervals; nullopt if there is
/// none.
std::optional<IntensitySeries> part_of(const IntensitySeries& series, UtcTime from, UtcTime to);

/// Parses a time like parse_utc, ignoring fractions of a second, which providers write.
std::optional<UtcTime> parse_provider_time(std::string_view text);

}  // namespace harpe::carbon
