#pragma once
/// \file
/// The current intensity and its forecast from the best available source; each number is labelled
/// with its step of the ladder.
///
///   Current:  fresh -> last good, at most 2 steps old -> forecast that the provider made earlier
///             for this hour -> same hour last week -> yearly mean that the user gave -> refused.
///   Forecast: the provider's -> Harpe's own, from the history -> persistence -> refused.
/// The provider is not requested again within one step of its data after a response. Responses are
/// cached, and cached values are used when the provider does not respond. A value never replaces
/// one of another kind.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/carbon/carbon/intensity.h"
#include "harpe/carbon/carbon_source/exogenous_source.h"
#include "harpe/carbon/carbon_source/forecast_record.h"
#include "harpe/carbon/carbon_source/intensity_cache.h"
#include "harpe/carbon/carbon_source/intensity_source.h"
#include "harpe/carbon/carbon_source/source_link.h"

namespace harpe::carbon {

enum class LadderStep : unsigned char {
  kFresh,             ///< of the current or the previous interval, fetched within the last step
  kLastGood,          ///< of an interval that ended at most 2 steps ago
  kForecast,          ///< the provider's forecast for now, made earlier
  kSameHourLastWeek,  ///< measured a week ago
  kYearlyMean,        ///< a number from the user
};
/// Returns "fresh", "last good", "forecast", "same hour last week" or "yearly mean".
std::string_view text_of(LadderStep step);

/// Returns true if a controller may act on the value. Values below "forecast" are for reports only;
/// a plan that ignores carbon is then the honest choice.
constexpr bool carbon_control_allowed(LadderStep step) {
  return step <= LadderStep::kForecast;
}

/// A number with its label.
struct LabelledIntensity {
  CarbonIntensity intensity;  ///< g/kWh, kind, zone, source
  UtcTime start{};
  WholeSeconds step{0};
  bool estimated = false;
  LadderStep ladder = LadderStep::kYearlyMean;
  std::optional<UtcTime> fetched_at = {};
  std::optional<UtcTime> issued_at = {};  ///< of a forecast; nullopt for other values
  std::vector<std::string> notes = {};
};

enum class ForecastStep : unsigned char {
  kProvider,
  kOwn,         ///< Harpe's forecast from measured values
  kPersistence  ///< the newest value, for all hours
};
/// Returns "provider", "own forecast" or "persistence".
std::string_view text_of(ForecastStep step);
constexpr bool carbon_control_allowed(ForecastStep step) {
  return step <= ForecastStep::kOwn;
}

/// A forecast that starts at the current interval.
struct LabelledForecast {
  IntensitySeries expected;
  std::vector<double> lower, upper;  ///< 80 % interval; empty if unknown
  ForecastStep ladder = ForecastStep::kPersistence;
  UtcTime issued_at{};
  UtcTime fetched_at{};  ///< of the newest value it is based on
  std::vector<std::string> notes = {};
};

struct LabelledHistory {
  IntensitySeries series;
  std::vector<std::int64_t> fetched_at;  ///< of each value, Unix time; 0 if unknown
  std::vector<std::string> notes = {};
};

struct IntensityChainOptions {
  /// The yearly mean of the zone from the user, of the source's kind.
  std::optional<double> yearly_mean = {};
  bool offline = false;                ///< requests nothing from providers
  WholeSeconds backfill{28 * 86'400};  ///< history to request before an own forecast
  /// Maximum age of a provider's forecast that is used in place of a new one.
  WholeSeconds oldest_forecast{6 * 3600};
  ExogenousSource exogenous = {};  ///< additional inputs of own forecasts; empty for none
};

/// A chain of fallbacks for one source. Used by one thread. Source and cache must outlive it.
class IntensityChain {
 public:
  IntensityChain(IntensitySource& source, IntensityCache& cache, UtcNow now,
                 IntensityChainOptions options = {});

  /// Returns the current intensity. Fails with kUnavailable, or with kNoPermission if the provider
  /// refused access; the error gives the reason for each step that was not used.
  Result<LabelledIntensity> current();
  Result<LabelledForecast> forecast(WholeSeconds horizon);
  /// Returns [from, to): from the cache if it is complete and final there, else from the provider.
  Result<LabelledHistory> history(UtcTime from, UtcTime to);
  /// Returns the accuracy of earlier forecasts like this one, as far as the cache has them;
  /// requests nothing from providers. Empty if the cache has none.
  ForecastRecord record(const LabelledForecast& of);

 private:
  struct Newest {
    std::size_t index = 0;
    CachedSeries cached;
    UtcTime end() const { return cached.series.start_of(index + 1); }
  };

  Result<ProviderIntensity> checked(Result<ProviderIntensity> answer);
  std::optional<Newest> newest(UtcTime now);
  void ask_for_latest(UtcTime now);
  LabelledIntensity labelled(const CachedSeries& from, std::size_t index, LadderStep step) const;
  std::optional<LabelledForecast> provider_forecast(UtcTime now, WholeSeconds horizon);
  std::optional<LabelledForecast> own_forecast(UtcTime now, WholeSeconds horizon);
  std::optional<CachedSeries> past_of(UtcTime now);
  void keep_own(const LabelledForecast& made);
  void note(const std::string& what, const Error& error);
  std::vector<std::string> take_notes();
  Error refused(const std::string& what);

  IntensitySource& source_;
  IntensityCache& cache_;
  UtcNow now_;
  IntensityChainOptions options_;
  std::vector<std::string> notes_;
  std::optional<ErrorCode> refusal_;       ///< the provider's error in this call
  std::optional<CachedSeries> unwritten_;  ///< measured in this run, if no cache stores it
};

}  // namespace harpe::carbon
