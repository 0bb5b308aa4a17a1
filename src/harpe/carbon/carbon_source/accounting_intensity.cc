#include "harpe/carbon/carbon_source/accounting_intensity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harpe/carbon/carbon/intensity_csv.h"

namespace harpe::carbon {
namespace {

using Provider = SourceSpecification::Provider;

Error no_value(const std::string& name) {
  return Error::of(ErrorCode::kUnavailable, name + " has no value to compute the mean from");
}

/// Returns the mean of the known values; nullopt if none is known.
std::optional<CarbonIntensity> mean_of(const IntensitySeries& series) {
  double sum = 0;
  std::size_t known = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!series.known(i)) continue;
    sum += series.values[i];
    ++known;
  }
  if (known == 0) return std::nullopt;
  std::string source = series.source.empty() ? "" : series.source + ", ";
  source += "mean of " + std::to_string(known) +
            (known == series.size() ? "" : " of " + std::to_string(series.size())) +
            " values from " + utc_text(series.start) + " to " + utc_text(series.end());
  return CarbonIntensity{.grams_per_kwh = sum / static_cast<double>(known),
                         .kind = series.kind,
                         .zone = series.zone,
                         .source = std::move(source)};
}

Result<CarbonIntensity> mean_of_file(const SourceSpecification& specification,
                                     const SourceEnvironment& environment) {
  const std::string text = HARPE_TRY(environment.read(specification.path));
  const IntensitySeries series =
      HARPE_TRY(parse_intensity_csv(text, specification.path, specification.csv));
  auto mean = mean_of(series);
  if (!mean) return no_value(specification.path);
  return *std::move(mean);
}

IntensityBasis basis_of(LadderStep step) {
  // In the order of the enumeration.
  constexpr std::array kBases = {IntensityBasis::kMeasured, IntensityBasis::kNeighbour,
                                 IntensityBasis::kForecast, IntensityBasis::kSameHourLastWeek,
                                 IntensityBasis::kYearlyMean};
  return kBases.at(static_cast<std::size_t>(step));
}

/// Returns a grid over [from, to) without known values.
IntensitySeries unknown_series(const SourceIdentity& identity, UtcTime from, UtcTime to) {
  const UtcTime start = interval_of(from, identity.step);
  const std::int64_t count =
      std::max<std::int64_t>(1, (to - start + identity.step - WholeSeconds(1)) / identity.step);
  const auto size = static_cast<std::size_t>(count);
  return {.start = start,
          .step = identity.step,
          .values = std::vector<double>(size, kNoValue),
          .estimated = std::vector<std::uint8_t>(size, 0),
          .kind = identity.kind,
          .zone = identity.zone};
}

/// Copies the known values to the grid, if their step and kind are the same.
void put(const IntensitySeries& known, IntensitySeries& grid) {
  if (known.step != grid.step || known.kind != grid.kind) return;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const UtcTime time = known.start_of(i);
    if (time < grid.start || time >= grid.end() || !known.known(i)) continue;
    const auto at = static_cast<std::size_t>((time - grid.start) / grid.step);
    grid.values[at] = known.values[i];
    grid.estimated[at] = known.estimated[i];
  }
}

void note_fetched(const LabelledHistory& history, AccountingIntensity& result) {
  for (const std::int64_t at : history.fetched_at) {
    if (at == 0) continue;
    const UtcTime time{at};
    result.fetched_from = std::min(result.fetched_from.value_or(time), time);
    result.fetched_to = std::max(result.fetched_to.value_or(time), time);
  }
}

/// Uses the current intensity if there is no history: up to 2 steps away, or everywhere if it is a
/// yearly mean.
bool take_current(CarbonSource& source, const IntensitySeries& grid, AccountingIntensity& result) {
  const Result<LabelledIntensity> now = source.current();
  if (!now.ok() || now->intensity.kind != grid.kind) return false;
  const IntensityBasis basis = basis_of(now->ladder);
  AccountedSeries& series = result.intensity;
  series = {.series = grid, .bases = std::vector(grid.size(), IntensityBasis::kNone)};
  constexpr std::int64_t kNear = 2;
  bool any = false;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::int64_t away = (grid.start_of(i) - now->start) / grid.step;
    const bool is_mean = basis == IntensityBasis::kYearlyMean;
    if (!is_mean && (away < -kNear || away > kNear)) continue;
    series.series.values[i] = now->intensity.grams_per_kwh;
    series.bases[i] = away == 0 || is_mean ? basis : std::max(basis, IntensityBasis::kNeighbour);
    any = true;
  }
  result.data_source = now->intensity.source;
  result.notes.insert(result.notes.end(), now->notes.begin(), now->notes.end());
  result.fetched_from = result.fetched_to = now->fetched_at;
  return any;
}

}  // namespace

Result<AccountingIntensity> accounting_intensity(CarbonSource& source,
                                                 const SourceSpecification& specification,
                                                 UtcTime from, UtcTime to) {
  AccountingIntensity result{.identity = source.identity(), .method = source.method()};
  const SourceIdentity& identity = result.identity;
  const bool is_mean = specification.provider == SourceSpecification::Provider::kConstant;
  std::optional<IntensityBasis> whole;
  if (is_mean) {
    whole = specification.constant.zone.empty() ? IntensityBasis::kGivenNumber
                                                : IntensityBasis::kYearlyMean;
  }
  IntensitySeries grid = unknown_series(identity, from, to);
  const UtcTime begin = grid.start;
  const Result<LabelledHistory> history = source.history(begin, grid.end());
  if (!history.ok()) {
    result.notes.push_back(history.error().text());
    if (take_current(source, grid, result)) return result;
    if (!specification.yearly_mean) return history.error();
    result.intensity = accounted_series(std::move(grid), specification.yearly_mean);
    return result;
  }
  grid.zone = history->series.zone;
  result.data_source = grid.source = history->series.source;
  result.notes = history->notes;
  note_fetched(*history, result);
  put(history->series, grid);
  result.intensity = accounted_series(grid, specification.yearly_mean, whole);
  const bool needs_week = std::ranges::any_of(result.intensity.bases, [](IntensityBasis basis) {
    return basis >= IntensityBasis::kSameHourLastWeek;
  });
  if (is_mean || !needs_week) return result;
  IntensitySeries longer = unknown_series(identity, begin - whole_days(7), grid.end());
  longer.zone = grid.zone;
  longer.source = grid.source;
  if (const auto week = source.history(longer.start, begin); week.ok()) put(week->series, longer);
  put(grid, longer);
  result.intensity =
      without_before(accounted_series(std::move(longer), specification.yearly_mean), begin);
  return result;
}

Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past) {
  if (specification.provider == Provider::kConstant) return specification.constant;
  if (specification.provider == Provider::kFile) return mean_of_file(specification, environment);
  const std::unique_ptr<CarbonSource> source = HARPE_TRY(open_source(specification, environment));
  const UtcTime now = environment.now();
  const UtcTime from{now.since_1970 - std::min(past, kLongestMean).count()};
  const AccountingIntensity found =
      HARPE_TRY(accounting_intensity(*source, specification, from, now));
  auto mean = mean_of(found.intensity.series);
  if (!mean) return no_value(found.identity.name());
  if (mean->zone.empty()) mean->zone = found.identity.zone;
  return *std::move(mean);
}

}  // namespace harpe::carbon
