#pragma once
/// \file
/// On-disk cache of providers' responses, so that they remain available without the network:
/// measured values with the time at which each was fetched (providers revise them), and forecasts
/// as issued, which later forecasts never overwrite.
///
///     DIRECTORY/electricity-maps/DE/life-cycle-3600s/measured-2026-11
///     DIRECTORY/electricity-maps/DE/life-cycle-3600s/forecasts-2026-11/20261124T100000Z
///     DIRECTORY/entsoe/10Y1001A1001A82H/life-cycle-3600s/own-forecasts-2026-11/...
///     DIRECTORY/responses/1f0c...          with their validators (ETag)
///
/// No function fails: a full disk, a damaged file, a file of another version or a directory that is
/// not writable produce a note, and the value counts as not cached. Files are written under another
/// name and renamed. Several processes may use one directory: of two writes at the same time, one
/// is repeated later.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon_source/api_token.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/carbon/carbon_source/source_link.h"

namespace harpe::carbon {

/// Origin of a forecast. Origins are stored separately, since their errors differ.
enum class ForecastOrigin : unsigned char { kProvider, kOwn };

/// The cache of one directory. Used by one thread.
class IntensityCache final : public ResponseStore {
 public:
  /// \param directory  empty to cache nothing
  explicit IntensityCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Adds values; replaces existing ones. There is one file per month.
  void keep_measured(const SourceIdentity& identity, const ProviderIntensity& measured);
  /// Returns the cached part of [from, to), in whole intervals; nullopt if there is none.
  std::optional<CachedSeries> measured(const SourceIdentity& identity, UtcTime from, UtcTime to);

  /// Months of issue whose forecasts are kept, so that the forecasts of a year can be evaluated.
  static constexpr std::size_t kMonthsOfForecasts = 14;

  /// Stores a forecast. An existing forecast with the same time of issue is replaced only if the
  /// new one has the same values and extends further. The first forecast of a month removes the
  /// oldest months.
  void keep_forecast(const SourceIdentity& identity, const ProviderIntensity& forecast,
                     ForecastOrigin origin = ForecastOrigin::kProvider);
  /// Returns, for each of the descending `times`, the newest forecast issued then or up to `oldest`
  /// before, with the position in `times`. Times without a forecast are omitted.
  std::vector<std::pair<std::size_t, CachedSeries>> forecasts(const SourceIdentity& identity,
                                                              ForecastOrigin origin,
                                                              const std::vector<UtcTime>& times,
                                                              WholeSeconds oldest);
  /// Returns the newest forecast issued in [earliest, latest] that covers `hour`; nullopt if none.
  std::optional<CachedSeries> forecast(const SourceIdentity& identity, UtcTime hour,
                                       UtcTime earliest, UtcTime latest);

  std::optional<Kept> find(const std::string& url) override;
  void keep(const std::string& url, const Kept& response) override;

  /// Returns the notes since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  /// Returns the directory of a source; empty if nothing is cached.
  std::filesystem::path folder(const SourceIdentity& identity) const;

 private:
  std::optional<CachedSeries> read(const std::filesystem::path& path,
                                   const SourceIdentity& identity);
  bool write(const std::filesystem::path& path, const std::string& text);

  std::filesystem::path directory_;
  std::vector<std::string> notes_;
};

/// Returns HARPE_CARBON_CACHE, else $XDG_CACHE_HOME/harpe/carbon, else ~/.cache/harpe/carbon; empty
/// if none is known or if HARPE_CARBON_CACHE is "off".
std::filesystem::path carbon_cache_directory(const EnvironmentVariable& variable);

}  // namespace harpe::carbon
