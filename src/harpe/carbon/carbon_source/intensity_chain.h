#pragma once
/// \file
/// The present intensity and its forecast from whatever there is, each number with the step of the
/// ladder that it stands on.
///
/// Now:       fresh -> last good, at most 2 steps old -> forecast that the provider made earlier
/// for
///            this hour -> same hour last week -> yearly mean that the user gave -> refused.
/// To come:   the provider's forecast -> Harpe's own over the history -> persistence -> refused.
///
/// The provider is asked no more often than once a step of its data. What it says goes into the
/// cache; what is in the cache is used where it does not answer. Values of different kinds never
/// stand in for each other.

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
  kFresh,             ///< of the interval now, or the one before, asked for within a step
  kLastGood,          ///< of an interval that ended at most 2 steps ago
  kForecast,          ///< the provider's forecast for now, made earlier
  kSameHourLastWeek,  ///< measured a week ago
  kYearlyMean,        ///< a number of the user's
};
/// "fresh", "last good", "forecast", "same hour last week", "yearly mean".
std::string_view text_of(LadderStep step);

/// Whether a controller may act on it. Below "forecast" the number fits reports; a plan that does
/// not move with carbon is then the honest choice.
constexpr bool carbon_control_allowed(LadderStep step) {
  return step <= LadderStep::kForecast;
}

/// One number with its label.
struct LabelledIntensity {
  CarbonIntensity intensity;  ///< g/kWh, kind, zone, source
  UtcTime start{};
  WholeSeconds step{0};
  bool estimated = false;
  LadderStep ladder = LadderStep::kYearlyMean;
  std::optional<UtcTime> fetched_at = {};
  std::optional<UtcTime> issued_at = {};  ///< of a forecast
  std::vector<std::string> notes = {};
};

enum class ForecastStep : unsigned char {
  kProvider,
  kOwn,         ///< of Harpe's forecaster over what was measured
  kPersistence  ///< the newest value, for all hours
};
/// "provider", "own forecast", "persistence".
std::string_view text_of(ForecastStep step);
constexpr bool carbon_control_allowed(ForecastStep step) {
  return step <= ForecastStep::kOwn;
}

/// From the interval that holds the present on.
struct LabelledForecast {
  IntensitySeries expected;
  std::vector<double> lower, upper;  ///< of 80 %; empty: not known
  ForecastStep ladder = ForecastStep::kPersistence;
  UtcTime issued_at{};
  UtcTime fetched_at{};  ///< of the newest value that it rests on
  std::vector<std::string> notes = {};
};

struct LabelledHistory {
  IntensitySeries series;
  std::vector<std::int64_t> fetched_at;  ///< of each value, Unix time; 0: not known
  std::vector<std::string> notes = {};
};

struct IntensityChainOptions {
  /// What the user says the zone's mean of a year is, in the source's kind.
  std::optional<double> yearly_mean = {};
  bool offline = false;                    ///< asks no provider
  WholeSeconds backfill{28 * 86'400};      ///< asked for before an own forecast
  WholeSeconds oldest_forecast{6 * 3600};  ///< of a provider that may stand in for a new one
  ExogenousSource exogenous = {};          ///< what own forecasts know beside; empty: nothing
};

/// Used by one thread. Source and cache must outlive it.
class IntensityChain {
 public:
  IntensityChain(IntensitySource& source, IntensityCache& cache, UtcNow now,
                 IntensityChainOptions options = {});

  /// Fails with kUnavailable, or with what the provider's refusal was (kNoPermission), and says of
  /// every step why it was not taken.
  Result<LabelledIntensity> current();
  Result<LabelledForecast> forecast(WholeSeconds horizon);
  /// [from, to) from the cache where it is whole there, else from the provider.
  Result<LabelledHistory> history(UtcTime from, UtcTime to);
  /// What forecasts like this one were worth, as far as the cache has kept them; asks no provider.
  /// Empty where it keeps nothing.
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
  std::optional<ErrorCode> refusal_;       ///< of the provider in this call
  std::optional<CachedSeries> unwritten_;  ///< measured in this run, where no cache keeps it
};

}  // namespace harpe::carbon
