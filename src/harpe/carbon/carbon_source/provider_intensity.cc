#include "harpe/carbon/carbon_source/provider_intensity.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

constexpr double kHighestProvided = 3000;  // in g/kWh, above any grid

bool cannot_be(double grams, IntensityKind kind) {
  if (!std::isfinite(grams) || std::abs(grams) > kHighestProvided) return true;
  return grams < 0 && kind != IntensityKind::kMarginal;
}

/// Returns the most frequent distance between neighbours, or the shortest if several are.
WholeSeconds usual_step(const std::vector<ProviderRow>& rows) {
  std::map<WholeSeconds, std::size_t> counts;
  for (std::size_t r = 1; r < rows.size(); ++r) ++counts[rows[r].start - rows[r - 1].start];
  WholeSeconds usual{0};
  std::size_t most = 0;
  for (const auto& [distance, count] : counts) {
    if (count > most) usual = distance;
    most = std::max(most, count);
  }
  return usual;
}

/// Replaces impossible values by gaps. Adds a note with their number and the first value.
void drop_impossible(std::vector<ProviderRow>& rows, IntensityKind kind,
                     std::vector<std::string>& notes) {
  std::size_t dropped = 0;
  std::string first;
  for (ProviderRow& row : rows) {
    if (std::isnan(row.grams_per_kwh) || !cannot_be(row.grams_per_kwh, kind)) continue;
    if (dropped++ == 0) first = shortest(row.grams_per_kwh) + " g/kWh at " + utc_text(row.start);
    row.grams_per_kwh = kNoValue;
  }
  if (dropped == 0) return;
  notes.push_back(std::to_string(dropped) +
                  (dropped == 1 ? " impossible value was left out: "
                                : " impossible values were left out, the first of them ") +
                  first);
}

std::string value_text(const ProviderRow& row) {
  return shortest(row.grams_per_kwh) + " g/kWh in line " + std::to_string(row.line) + ", column " +
         std::to_string(row.column);
}

/// Sorts the rows and merges rows of the same time. Returns a message if a time has two values:
/// only the provider knows which is right.
std::optional<std::string> join_equal_times(std::vector<ProviderRow>& rows) {
  std::map<UtcTime, ProviderRow> by_time;
  for (const ProviderRow& row : rows) {
    const auto [at, first] = by_time.try_emplace(row.start, row);
    if (first || std::isnan(row.grams_per_kwh)) continue;
    ProviderRow& before = at->second;
    if (!std::isnan(before.grams_per_kwh) && before.grams_per_kwh != row.grams_per_kwh) {
      return "two values for " + utc_text(row.start) + ": " + value_text(before) + ", and " +
             value_text(row);
    }
    before = row;
  }
  rows.clear();
  for (const auto& [time, row] : by_time) rows.push_back(row);
  return std::nullopt;
}

}  // namespace

Result<ProviderIntensity> series_of_rows(std::vector<ProviderRow> rows, const ProviderRowsOf& of) {
  const auto fail = [&](const std::string& what) {
    return Error::invalid(of.source + ": " + what);
  };
  if (rows.size() > kMostProviderRows) return fail("the answer has too many values");
  ProviderIntensity answer;
  drop_impossible(rows, of.kind, answer.notes);
  if (const auto wrong = join_equal_times(rows)) return fail(*wrong);
  if (std::ranges::all_of(rows, [](const ProviderRow& r) { return std::isnan(r.grams_per_kwh); })) {
    std::string why = "the answer has no value";
    for (const std::string& note : answer.notes) why += "; " + note;
    return fail(why);
  }
  IntensitySeries& series = answer.series;
  series.step = of.step.value_or(usual_step(rows));
  if (series.step.count() <= 0)
    return fail("one value is not enough to find the length of an interval");
  if (whole_days(1) % series.step != WholeSeconds(0)) {
    return fail("intervals of " + std::to_string(series.step.count()) + " s do not divide a day");
  }
  series.start = rows.front().start;
  const auto size = static_cast<std::size_t>((rows.back().start - series.start) / series.step) + 1;
  if (size > kLongestSeries) return fail("the answer's times are too far apart");
  series.values.assign(size, kNoValue);
  series.estimated.assign(size, 0);
  series.kind = of.kind;
  series.zone = of.zone;
  series.source = of.source;
  for (const ProviderRow& row : rows) {
    const WholeSeconds since = row.start - series.start;
    if (since % series.step != WholeSeconds(0)) {
      return fail("the time " + utc_text(row.start) + " is not a multiple of " +
                  std::to_string(series.step.count()) + " s after " + utc_text(series.start));
    }
    const auto slot = static_cast<std::size_t>(since / series.step);
    series.values[slot] = row.grams_per_kwh;
    series.estimated[slot] = row.estimated && !std::isnan(row.grams_per_kwh) ? 1 : 0;
  }
  return answer;
}

Result<ProviderIntensity> merged(const ProviderIntensity& older, const ProviderIntensity& newer) {
  const IntensitySeries &a = older.series, &b = newer.series;
  if (a.kind != b.kind || a.zone != b.zone || a.step != b.step) {
    return Error::invalid("values of two kinds, zones or intervals cannot be combined: " +
                          std::string(text_of(a.kind)) + " of " + a.zone + ", and " +
                          std::string(text_of(b.kind)) + " of " + b.zone);
  }
  if ((a.start - b.start) % a.step != WholeSeconds(0)) {
    return Error::invalid("the intervals from " + utc_text(a.start) + " and from " +
                          utc_text(b.start) + " are not on the same grid");
  }
  ProviderIntensity both = newer;
  IntensitySeries& series = both.series;
  series.start = std::min(a.start, b.start);
  const auto size =
      static_cast<std::size_t>((std::max(a.end(), b.end()) - series.start) / series.step);
  if (size > kLongestSeries) return Error::invalid("the values are too far apart");
  series.values.assign(size, kNoValue);
  series.estimated.assign(size, 0);
  for (const IntensitySeries* from : {&a, &b}) {
    const auto at = static_cast<std::size_t>((from->start - series.start) / series.step);
    for (std::size_t i = 0; i < from->size(); ++i) {
      if (!from->known(i)) continue;
      series.values[at + i] = from->values[i];
      series.estimated[at + i] = from->estimated[i];
    }
  }
  both.notes.insert(both.notes.begin(), older.notes.begin(), older.notes.end());
  return both;
}

std::optional<IntensitySeries> part_of(const IntensitySeries& series, UtcTime from, UtcTime to) {
  const UtcTime begin = std::max(from, series.start);
  const UtcTime end = std::min(to, series.end());
  if (begin >= end) return std::nullopt;
  const auto first = (begin - series.start) / series.step;
  const auto last = (end - series.start + series.step - WholeSeconds(1)) / series.step;
  IntensitySeries part = series;
  part.start = series.start + first * series.step;
  part.values.assign(series.values.begin() + first, series.values.begin() + last);
  part.estimated.assign(series.estimated.begin() + first, series.estimated.begin() + last);
  return part;
}

std::optional<UtcTime> parse_provider_time(std::string_view text) {
  if (text.size() > 40) return std::nullopt;
  std::string whole(text);
  if (const std::size_t point = whole.find('.'); point != std::string::npos) {
    const std::size_t end = whole.find_first_not_of("0123456789", point + 1);
    if (end == point + 1) return std::nullopt;
    whole.erase(point, end == std::string::npos ? end : end - point);
  }
  return parse_utc(whole);
}

}  // namespace harpe::carbon
