#pragma once
/// \file
/// The files of the cache: each holds one series, its identity and the fetch time of every value.
///
///     harpe.carbon-cache/1 8f1d0c22a4b3e657
///     {"provider": "uk", "zone": "13", "kind": "direct", "step_s": 1800,
///      "start": "2026-11-01T00:00:00Z",
///      "values": [201, null], "estimated": [0, 0], "fetched_at": [1793491200, 0], ...}
///
/// The number is a digest (FNV-1a) of the following text, which detects damage on the disk.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/carbon/carbon_source/intensity_source.h"

namespace harpe::carbon {

struct CachedSeries {
  SourceIdentity identity;
  IntensitySeries series;  ///< of the identity's kind and step
  /// For each value, seconds of Unix time; 0 if there is no value.
  std::vector<std::int64_t> fetched_at = {};
  std::optional<UtcTime> issued_at = {};  ///< of a forecast; nullopt for other series
};

/// Returns the series of a response; every value has the fetch time of the response.
CachedSeries cached_of(const SourceIdentity& identity, const ProviderIntensity& answer);

std::string cached_series_text(const CachedSeries& cached);

/// Parses the text of cached_series_text(); fails on any other text. \param file  for messages
Result<CachedSeries> parse_cached_series(std::string_view text, const std::string& file);

/// Returns "life-cycle", "direct", "marginal" or "unstated", as in files and options.
std::string_view kind_word(IntensityKind kind);
std::optional<IntensityKind> kind_of_word(std::string_view word);

}  // namespace harpe::carbon
