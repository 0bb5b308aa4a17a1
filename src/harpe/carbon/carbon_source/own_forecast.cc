// The part of the chain that forecasts by itself, where the provider does not.

#include <algorithm>
#include <cmath>

#include "harpe/carbon/carbon/intensity_forecaster.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"

namespace harpe {
namespace {

constexpr WholeSeconds kOwnForecastNeeds = whole_days(2);
constexpr WholeSeconds kOldestPersistence = whole_hours(24);
constexpr std::size_t kLongestOwnHorizon = 200;  // a week of hours, and what it starts behind

/// From the first to the last known value that has begun, in hours where it comes finer than half
/// hours, which would cost much and tell little.
std::optional<IntensitySeries> forecastable(const IntensitySeries& series, UtcTime now) {
  std::size_t last = series.size(), first = 0;
  while (last > 0 && (!series.known(last - 1) || series.start_of(last - 1) > now)) --last;
  while (first < last && !series.known(first)) ++first;
  if (first >= last) return std::nullopt;
  const UtcTime end = series.start_of(last);
  if (series.step >= whole_minutes(30)) return part_of(series, series.start_of(first), end);
  const auto whole =
      part_of(series, interval_of(series.start_of(first) + whole_hours(1), whole_hours(1)), end);
  auto coarse = whole ? coarsened(*whole, whole_hours(1)) : Result<IntensitySeries>(Error());
  if (!coarse.ok()) return std::nullopt;
  while (!coarse->values.empty() && std::isnan(coarse->values.back())) {
    coarse->values.pop_back();
    coarse->estimated.pop_back();
  }
  if (coarse->values.empty()) return std::nullopt;
  return *std::move(coarse);
}

std::string names_of(const ExogenousSeries& exogenous) {
  std::string names;
  for (const ExogenousSeries::Column& column : exogenous.columns)
    names += (names.empty() ? "" : ", ") + column.name;
  return names;
}

/// Whether a provider was asked for history within a step: many values came at once.
bool filled_lately(const CachedSeries& past, UtcTime now) {
  constexpr std::ptrdiff_t kMany = 12;
  return std::ranges::count_if(past.fetched_at, [&](std::int64_t at) {
           const UtcTime time{at};
           return time <= now && now < time + past.identity.step;
         }) >= kMany;
}

}  // namespace

/// What was measured up to now, with the provider asked where little is kept.
std::optional<CachedSeries> IntensityChain::past_of(UtcTime now) {
  const SourceIdentity& identity = source_.identity();
  const UtcTime from = interval_of(now - options_.backfill, whole_hours(1));
  auto past = cache_.measured(identity, from, now);
  const auto known = [](const std::optional<CachedSeries>& series) {
    return series ? series->series.size() - series->series.gaps() : 0;
  };
  const auto wanted = static_cast<std::size_t>(options_.backfill / identity.step);
  const bool late = !past || past->series.end() + 2 * identity.step < now;
  if (!options_.offline && (late || known(past) < wanted * 3 / 4) &&
      !(past && filled_lately(*past, now))) {
    const auto answer = checked(source_.history(from, now));
    if (answer.ok()) {
      cache_.keep_measured(identity, *answer);
      const CachedSeries fetched = cached_of(identity, *answer);
      past = cache_.measured(identity, from, now);
      if (known(past) < known(std::optional(fetched))) past = fetched;
    } else {
      note("no history", answer.error());
    }
  }
  return past;
}

std::optional<LabelledForecast> IntensityChain::own_forecast(UtcTime now, WholeSeconds horizon) {
  const auto past = past_of(now);
  const auto series = past ? forecastable(past->series, now) : std::nullopt;
  if (!series) return std::nullopt;
  const std::size_t last = series->size() - 1;
  if (now - series->end() > kOldestPersistence) {
    notes_.emplace_back("the newest value measured is of " + utc_text(series->start_of(last)));
    return std::nullopt;
  }
  const UtcTime hour = interval_of(now, series->step);
  const auto steps =
      static_cast<std::size_t>((horizon + series->step - WholeSeconds(1)) / series->step);
  LabelledForecast made{.expected = *series, .lower = {}, .upper = {}, .issued_at = now};
  made.fetched_at = UtcTime{*std::ranges::max_element(past->fetched_at)};
  made.expected.start = hour;
  made.expected.values.assign(steps, series->values[last]);
  made.expected.estimated.assign(steps, 0);
  // Step s is so many intervals after the newest: 0 is the newest itself.
  const auto behind = static_cast<std::size_t>((hour - series->start_of(last)) / series->step);
  const std::size_t ahead = std::max<std::size_t>(1, behind + steps - 1);
  if (series->end() - series->start < kOwnForecastNeeds || ahead > kLongestOwnHorizon) {
    notes_.emplace_back("an own forecast needs 2 days of values and reaches " +
                        std::to_string(kLongestOwnHorizon) + " steps");
    return made;
  }
  const auto exogenous =
      options_.exogenous ? options_.exogenous(*series, ahead, notes_) : std::nullopt;
  IntensityForecaster forecaster({.slots_per_day = series->slots_per_day(), .horizon = ahead},
                                 exogenous ? &*exogenous : nullptr);
  for (const double grams : series->values) forecaster.observe(grams);
  const auto& forecast = forecaster.forecast();
  if (!forecast) return made;
  made.ladder = ForecastStep::kOwn;
  made.expected.source += ", forecast by Harpe";
  if (exogenous) made.expected.source += " with " + names_of(*exogenous);
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t after = behind + s;
    const double newest = series->values[last];
    made.expected.values[s] = after == 0 ? newest : forecast->expected[after - 1];
    made.lower.push_back(after == 0 ? newest : forecast->lower[after - 1]);
    made.upper.push_back(after == 0 ? newest : forecast->upper[after - 1]);
  }
  keep_own(made);
  return made;
}

}  // namespace harpe
