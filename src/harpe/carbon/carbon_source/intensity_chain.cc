#include "harpe/carbon/carbon_source/intensity_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harpe/carbon/carbon/intensity_forecaster.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

/// A clock that was never set shows an earlier time: nothing is requested or cached with it.
constexpr UtcTime kEarliestPresent{1'577'836'800};  // 2020-01-01
/// Maximum time by which a provider's clock may be ahead.
constexpr WholeSeconds kClockSkew{300};

UtcTime fetched_time(const CachedSeries& cached, std::size_t index) {
  return UtcTime{cached.fetched_at[index]};
}

/// Returns the series from the interval of `now` on, at most `horizon` long; nullopt if the value
/// of `now` is unknown.
std::optional<IntensitySeries> ahead_of(const IntensitySeries& series, UtcTime now,
                                        WholeSeconds horizon) {
  const UtcTime begin = interval_of(now, series.step);
  auto ahead = part_of(series, begin, begin + horizon);
  if (!ahead || ahead->start != begin || !ahead->known(0)) return std::nullopt;
  return ahead;
}

constexpr WholeSeconds kOwnForecastNeeds = whole_days(2);
constexpr WholeSeconds kOldestPersistence = whole_hours(24);
constexpr std::size_t kLongestOwnHorizon = 200;  // a week of hours, and the newest value's age

/// Returns the series from its first known value to the last that has begun. Steps below half an
/// hour are averaged to hours: they would take much time and improve forecasts little.
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

/// Returns true if a provider sent history within the last step: many values were fetched at once.
bool filled_lately(const CachedSeries& past, UtcTime now) {
  constexpr std::ptrdiff_t kMany = 12;
  return std::ranges::count_if(past.fetched_at, [&](std::int64_t at) {
           const UtcTime time{at};
           return time <= now && now < time + past.identity.step;
         }) >= kMany;
}

}  // namespace

std::string_view text_of(LadderStep step) {
  // In the order of the enumeration.
  static constexpr std::array kTexts = std::to_array<std::string_view>(
      {"fresh", "last good", "forecast", "same hour last week", "yearly mean"});
  return kTexts.at(static_cast<std::size_t>(step));
}

std::string_view text_of(ForecastStep step) {
  // In the order of the enumeration.
  static constexpr std::array kTexts =
      std::to_array<std::string_view>({"provider", "own forecast", "persistence"});
  return kTexts.at(static_cast<std::size_t>(step));
}

IntensityChain::IntensityChain(IntensitySource& source, IntensityCache& cache, UtcNow now,
                               IntensityChainOptions options)
    : source_(source), cache_(cache), now_(std::move(now)), options_(std::move(options)) {}

void IntensityChain::note(const std::string& what, const Error& error) {
  notes_.push_back(what + ": " + error.text());
  // A missing permission replaces an earlier error, because the user can fix it.
  if (!refusal_ || error.code == ErrorCode::kNoPermission) refusal_ = error.code;
}

std::vector<std::string> IntensityChain::take_notes() {
  std::vector<std::string> notes = std::exchange(notes_, {});
  for (std::string& one : cache_.take_notes()) notes.push_back(std::move(one));
  return notes;
}

Error IntensityChain::refused(const std::string& what) {
  const ErrorCode code = refusal_ == ErrorCode::kNoPermission ? *refusal_ : ErrorCode::kUnavailable;
  Error error = Error::of(code, what);
  for (const std::string& one : take_notes()) error.diagnostics.push_back({.message = one});
  return error;
}

/// Returns an answer with the source's kind and step, after its notes are taken; an error if it has
/// another kind.
Result<ProviderIntensity> IntensityChain::checked(Result<ProviderIntensity> answer) {
  if (!answer.ok()) return answer;
  const SourceIdentity& identity = source_.identity();
  if (answer->series.kind != identity.kind) {
    return Error::invalid(identity.name() + ": the answer has another kind of intensity: " +
                          std::string(text_of(answer->series.kind)));
  }
  if (answer->series.step != identity.step) {
    IntensitySeries coarse = HARPE_TRY(coarsened(answer->series, identity.step));
    answer->series = std::move(coarse);
  }
  if (interval_of(answer->series.start, identity.step) != answer->series.start) {
    return Error::invalid(identity.name() + ": intervals do not begin on the hour's grid");
  }
  for (std::string& one : answer->notes) notes_.push_back(identity.name() + ": " + std::move(one));
  answer->notes.clear();
  return answer;
}

/// Returns the newest cached value of the last 2 days whose interval has begun.
std::optional<IntensityChain::Newest> IntensityChain::newest(UtcTime now) {
  const SourceIdentity& identity = source_.identity();
  auto cached = cache_.measured(identity, now - whole_days(2), now);
  if (unwritten_) {
    const auto part = part_of(unwritten_->series, now - whole_days(2), now);
    if (part && (!cached || part->end() >= cached->series.end())) cached = unwritten_;
  }
  if (!cached) return std::nullopt;
  for (std::size_t i = cached->series.size(); i-- > 0;) {
    // With a wrong clock, values of the future were cached: they are not measurements.
    if (!cached->series.known(i) || cached->series.start_of(i) > now) continue;
    return Newest{.index = i, .cached = *std::move(cached)};
  }
  return std::nullopt;
}

void IntensityChain::ask_for_latest(UtcTime now) {
  if (options_.offline) {
    notes_.emplace_back("offline: no provider is queried");
    return;
  }
  const auto answer = checked(source_.latest());
  if (!answer.ok()) {
    note("no fresh value", answer.error());
    return;
  }
  ProviderIntensity measured = *answer;
  // Some providers return coming hours with the newest value.
  if (const auto past = part_of(measured.series, measured.series.start, now + kClockSkew)) {
    measured.series = *past;
    cache_.keep_measured(source_.identity(), measured);
    unwritten_ = cached_of(source_.identity(), measured);
  }
}

LabelledIntensity IntensityChain::labelled(const CachedSeries& from, std::size_t index,
                                           LadderStep step) const {
  const IntensitySeries& series = from.series;
  return {.intensity = {.grams_per_kwh = series.values[index],
                        .kind = series.kind,
                        .zone = series.zone,
                        .source = series.source},
          .start = series.start_of(index),
          .step = series.step,
          .estimated = series.estimated[index] != 0,
          .ladder = step,
          .fetched_at = fetched_time(from, index),
          .issued_at = from.issued_at};
}

Result<LabelledIntensity> IntensityChain::current() {
  notes_.clear();
  refusal_.reset();
  const SourceIdentity& identity = source_.identity();
  const UtcTime now = now_();
  const auto with_notes = [&](LabelledIntensity found) {
    found.notes = take_notes();
    return found;
  };
  if (now < kEarliestPresent) {
    return refused("the clock of this machine is wrong (" + utc_text(now) + "): set it");
  }
  const auto is_fresh = [&](const Newest& found) {
    const UtcTime fetched = fetched_time(found.cached, found.index);
    return now < found.end() + identity.step && fetched <= now + kClockSkew &&
           now < fetched + identity.step;
  };
  auto found = newest(now);
  if (found && is_fresh(*found)) {
    return with_notes(labelled(found->cached, found->index, LadderStep::kFresh));
  }
  const bool asked_lately = found && fetched_time(found->cached, found->index) <= now &&
                            now < fetched_time(found->cached, found->index) + identity.step;
  if (!asked_lately) {
    ask_for_latest(now);
    found = newest(now);
  }
  if (found && is_fresh(*found)) {
    return with_notes(labelled(found->cached, found->index, LadderStep::kFresh));
  }
  if (found && now - found->end() <= 2 * identity.step) {
    return with_notes(labelled(found->cached, found->index, LadderStep::kLastGood));
  }
  const UtcTime hour = interval_of(now, identity.step);
  if (const auto made = cache_.forecast(identity, hour, now - whole_days(4), now)) {
    const auto index = static_cast<std::size_t>((hour - made->series.start) / identity.step);
    return with_notes(labelled(*made, index, LadderStep::kForecast));
  }
  const auto week =
      cache_.measured(identity, hour - whole_days(7), hour - whole_days(7) + identity.step);
  if (week && week->series.known(0)) {
    return with_notes(labelled(*week, 0, LadderStep::kSameHourLastWeek));
  }
  if (options_.yearly_mean) {
    LabelledIntensity mean{.intensity = {.grams_per_kwh = *options_.yearly_mean,
                                         .kind = identity.kind,
                                         .zone = identity.zone,
                                         .source = "yearly mean, given"},
                           .start = hour,
                           .step = identity.step};
    return with_notes(std::move(mean));
  }
  return refused(
      "no carbon intensity of " + identity.name() + " is available for " + utc_text(now) +
      ": the cache has no value of the last hours, no forecast and no value of a week ago, "
      "and no yearly mean was given");
}

std::optional<LabelledForecast> IntensityChain::provider_forecast(UtcTime now,
                                                                  WholeSeconds horizon) {
  const SourceIdentity& identity = source_.identity();
  const UtcTime hour = interval_of(now, identity.step);
  const auto label = [&](const CachedSeries& made) -> std::optional<LabelledForecast> {
    auto ahead = ahead_of(made.series, now, horizon);
    if (!ahead) return std::nullopt;
    const auto newest_fetch = *std::ranges::max_element(made.fetched_at);
    return LabelledForecast{.expected = *std::move(ahead),
                            .lower = {},
                            .upper = {},
                            .ladder = ForecastStep::kProvider,
                            .issued_at = made.issued_at.value_or(UtcTime{newest_fetch}),
                            .fetched_at = UtcTime{newest_fetch}};
  };
  const auto reaches = [&](const LabelledForecast& made, WholeSeconds needed) {
    return made.expected.end() >= hour + needed;
  };
  auto kept = cache_.forecast(identity, hour, now - options_.oldest_forecast, now + kClockSkew);
  auto earlier = kept ? label(*kept) : std::nullopt;
  // At most one request per step, if the cached forecast reaches the horizon.
  if (earlier && now < earlier->fetched_at + identity.step && reaches(*earlier, horizon)) {
    return earlier;
  }
  if (!options_.offline) {
    const auto answer = checked(source_.forecast(horizon));
    if (answer.ok()) {
      cache_.keep_forecast(identity, *answer);
      if (auto made = label(cached_of(identity, *answer))) return made;
      notes_.emplace_back("the provider's forecast does not cover the present");
    } else {
      note("no forecast from the provider", answer.error());
    }
  }
  if (earlier && reaches(*earlier, WholeSeconds(horizon.count() / 2))) {
    notes_.emplace_back("an earlier forecast is used");
    return earlier;
  }
  return std::nullopt;
}

Result<LabelledForecast> IntensityChain::forecast(WholeSeconds horizon) {
  notes_.clear();
  refusal_.reset();
  const UtcTime now = now_();
  const SourceIdentity& identity = source_.identity();
  if (now < kEarliestPresent) {
    return refused("the clock of this machine is wrong (" + utc_text(now) + "): set it");
  }
  if (horizon < identity.step) return Error::invalid("the horizon is shorter than one interval");
  auto made = provider_forecast(now, horizon);
  if (!made) made = own_forecast(now, horizon);
  if (!made) {
    return refused("no forecast of " + identity.name() +
                   " is available: the provider gave none, and no value of the last day is known");
  }
  made->notes = take_notes();
  return *std::move(made);
}

Result<LabelledHistory> IntensityChain::history(UtcTime from, UtcTime to) {
  notes_.clear();
  refusal_.reset();
  const SourceIdentity& identity = source_.identity();
  const UtcTime now = now_();
  from = interval_of(from, identity.step);
  to = std::min(to, now);
  if (from >= to) return Error::invalid("history ends before it begins, or begins in the future");
  auto kept = cache_.measured(identity, from, to);
  const auto settled = [&](const CachedSeries& series) {
    if (series.series.start > from || series.series.end() < interval_of(to, identity.step)) {
      return false;
    }
    for (std::size_t i = 0; i < series.series.size(); ++i) {
      // Estimates are revised in the first days: an early one is fetched again after a day.
      const bool revised = series.series.estimated[i] != 0 &&
                           fetched_time(series, i) + whole_days(1) < now &&
                           fetched_time(series, i) < series.series.start_of(i) + whole_days(7);
      if (!series.series.known(i) || revised) return false;
    }
    return true;
  };
  if (!options_.offline && !(kept && settled(*kept))) {
    const auto answer = checked(source_.history(from, to));
    if (answer.ok()) {
      cache_.keep_measured(identity, *answer);
      auto all = cache_.measured(identity, from, to);
      kept = all ? std::move(all) : cached_of(identity, *answer);
    } else {
      note("no history from the provider", answer.error());
    }
  }
  if (!kept)
    return refused("no history of " + identity.name() + " is available from " + utc_text(from));
  return LabelledHistory{
      .series = kept->series, .fetched_at = kept->fetched_at, .notes = take_notes()};
}

/// Returns the intensities measured up to now. Requests history from the provider if the cache has
/// few values.
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
    notes_.emplace_back("the newest measured value is from " + utc_text(series->start_of(last)));
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
  // Step s is `behind + s` intervals after the newest value; 0 is the newest value itself.
  const auto behind = static_cast<std::size_t>((hour - series->start_of(last)) / series->step);
  const std::size_t ahead = std::max<std::size_t>(1, behind + steps - 1);
  if (series->end() - series->start < kOwnForecastNeeds || ahead > kLongestOwnHorizon) {
    notes_.emplace_back("Harpe's own forecast needs 2 days of values and reaches at most " +
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

}  // namespace harpe::carbon
