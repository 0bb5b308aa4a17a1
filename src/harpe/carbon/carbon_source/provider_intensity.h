#pragma once
/// \file
/// What providers of carbon intensity answer, as their parsers hand it on: values on a grid in
/// g/kWh with their kind, and everything that was not as it should be.

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
  /// Of a forecast: when the provider made it, where it says so.
  std::optional<UtcTime> issued_at = {};
  UtcTime fetched_at{};                 ///< set by the source, not by parsers
  std::vector<std::string> notes = {};  ///< what was left out, for people
};

/// One value of an answer, in the order of the answer.
struct ProviderRow {
  UtcTime start{};
  double grams_per_kwh = kNoValue;  ///< NaN: null
  bool estimated = false;
  int line = 0, column = 0;  ///< in the answer
};

/// What a parser knows of all rows.
struct ProviderRowsOf {
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};
  std::string source = {};
  std::optional<WholeSeconds> step = {};  ///< nullopt: the most frequent distance
};

/// Most rows of one answer.
inline constexpr std::size_t kMostProviderRows = 120'000;

/// Returns the rows, in any order, as a series. Equal values of one time count once; a value wins
/// over a null; two values of one time are an error that names both places. Missing times are gaps.
/// An impossible value (below 0 unless marginal, over 3000 g/kWh, not finite) is a gap with a note.
/// Fails if no value is left, if times are not on one grid, and above `kMostProviderRows`.
/// O(rows log rows).
Result<ProviderIntensity> series_of_rows(std::vector<ProviderRow> rows, const ProviderRowsOf& of);

/// Both on one grid; where both have a value, that of `newer`. Kind and zone must be the same.
/// Gaps between them stay gaps; issued_at and fetched_at are those of `newer`.
Result<ProviderIntensity> merged(const ProviderIntensity& older, const ProviderIntensity& newer);

/// The part of the series in [from, to), widened to whole intervals; nullopt: there is none.
std::optional<IntensitySeries> part_of(const IntensitySeries& series, UtcTime from, UtcTime to);

/// As parse_utc; fractions of a second, which providers write, are cut off.
std::optional<UtcTime> parse_provider_time(std::string_view text);

}  // namespace harpe::carbon
