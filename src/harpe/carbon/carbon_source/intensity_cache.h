#pragma once
/// \file
/// What providers said, on the disk, so that an answer outlives the network: values that were
/// measured with the time each was fetched (providers revise), and forecasts as they were issued,
/// never overwritten by later ones.
///
///     DIRECTORY/electricity-maps/DE/life-cycle-3600s/measured-2026-11
///     DIRECTORY/electricity-maps/DE/life-cycle-3600s/forecasts-2026-11/20261124T100000Z
///     DIRECTORY/entsoe/10Y1001A1001A82H/life-cycle-3600s/own-forecasts-2026-11/...
///     DIRECTORY/responses/1f0c...          with their validators (ETag)
///
/// Nothing here fails: a full disk, a file that is damaged or of another version, a directory that
/// cannot be written give a note, and the value is as if it had not been kept. Files are written
/// under another name and renamed. Several processes may use one directory: what two write at the
/// same time, one of them writes again later.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon_source/api_token.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/carbon/carbon_source/source_link.h"

namespace harpe::carbon {

/// Whose forecasts are meant: kept apart, since each errs in its own way.
enum class ForecastOrigin : unsigned char { kProvider, kOwn };

/// Used by one thread.
class IntensityCache final : public ResponseStore {
 public:
  /// \param directory  empty: nothing is kept and nothing found
  explicit IntensityCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Adds values; those that are there already are replaced. A file a month.
  void keep_measured(const SourceIdentity& identity, const ProviderIntensity& measured);
  /// What is kept of [from, to), whole intervals; nullopt: nothing.
  std::optional<CachedSeries> measured(const SourceIdentity& identity, UtcTime from, UtcTime to);

  /// In which forecasts were issued that are kept: so that those of a year can be judged.
  static constexpr std::size_t kMonthsOfForecasts = 14;

  /// Keeps a forecast, unless one with the same time of issue is there; one that says the same and
  /// reaches further takes its place. With the first of a month, those of the oldest months go.
  void keep_forecast(const SourceIdentity& identity, const ProviderIntensity& forecast,
                     ForecastOrigin origin = ForecastOrigin::kProvider);
  /// Of each of the times, which descend, the newest that was issued then or up to `oldest` before.
  /// Those that are missing are left out; positions are those of `times`.
  std::vector<std::pair<std::size_t, CachedSeries>> forecasts(const SourceIdentity& identity,
                                                              ForecastOrigin origin,
                                                              const std::vector<UtcTime>& times,
                                                              WholeSeconds oldest);
  /// The newest that was issued in [earliest, latest] and tells of `hour`; nullopt: none.
  std::optional<CachedSeries> forecast(const SourceIdentity& identity, UtcTime hour,
                                       UtcTime earliest, UtcTime latest);

  std::optional<Kept> find(const std::string& url) override;
  void keep(const std::string& url, const Kept& response) override;

  /// What went wrong since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  /// Where all of a source is kept; empty: nowhere.
  std::filesystem::path folder(const SourceIdentity& identity) const;

 private:
  std::optional<CachedSeries> read(const std::filesystem::path& path,
                                   const SourceIdentity& identity);
  bool write(const std::filesystem::path& path, const std::string& text);

  std::filesystem::path directory_;
  std::vector<std::string> notes_;
};

/// HARPE_CARBON_CACHE, else $XDG_CACHE_HOME/harpe/carbon, else ~/.cache/harpe/carbon; empty where
/// none is known, or where HARPE_CARBON_CACHE is "off".
std::filesystem::path carbon_cache_directory(const EnvironmentVariable& variable);

}  // namespace harpe::carbon
