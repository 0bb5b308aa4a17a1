#include "harpe/training/carbon_control/intensity_outlook.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon_source/utc_arithmetic.h"

namespace harpe::training {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
/// Relative half-width of the range of a forecast without prediction intervals.
constexpr double kUnknownRange = 0.25;
constexpr double kRangeMargin = 1.05;
constexpr double kLongestPlanned = 366.0 * 86'400;  // s
/// Maximum share of gaps in the measured values after an earlier forecast.
constexpr double kMostUnknown = 0.1;

/// Returns the values, with each gap filled by the value before it.
std::vector<double> filled(const std::vector<double>& values) {
  std::vector<double> whole = values;
  const auto known = std::ranges::find_if(whole, [](double v) { return !std::isnan(v); });
  double before = known == whole.end() ? 0 : *known;
  for (double& value : whole) before = value = std::isnan(value) ? before : value;
  return whole;
}

/// The expected intensity of interval `i` from the start of the forecast, also beyond its end.
class Expected {
 public:
  explicit Expected(const carbon::IntensitySeries& series) : values_(filled(series.values)) {
    const std::size_t day = std::max<std::size_t>(1, series.slots_per_day());
    period_ = values_.size() >= day ? day : 0;
    for (const double value : values_) mean_ += value / static_cast<double>(values_.size());
  }
  double operator()(std::size_t i) const {
    if (i < values_.size()) return values_[i];
    if (period_ == 0) return mean_;
    return values_[values_.size() - period_ + (i - values_.size()) % period_];
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  std::size_t period_ = 0;
  double mean_ = 0;
};

carbon::WeightRange range_of(std::span<const double> lower, std::span<const double> upper) {
  return {*std::ranges::min_element(lower) / kJoulesPerKwh,
          *std::ranges::max_element(upper) / kJoulesPerKwh};
}

void put_ranges(IntensityOutlook& outlook, const carbon::LabelledForecast& forecast,
                const std::vector<double>& values, std::size_t first) {
  std::vector<double> lower = forecast.lower, upper = forecast.upper;
  if (lower.size() != values.size() || upper.size() != values.size()) {
    lower.clear();
    upper.clear();
    for (const double value : values) {
      lower.push_back(value - kUnknownRange * std::abs(value));
      upper.push_back(value + kUnknownRange * std::abs(value));
    }
  }
  const std::span<const double> low(lower), high(upper);
  outlook.next = range_of(low.subspan(first, 1), high.subspan(first, 1));
  outlook.next.lowest = std::min(outlook.next.lowest, outlook.intervals.front().weight);
  outlook.next.highest = std::max(outlook.next.highest, outlook.intervals.front().weight);
  outlook.ever = range_of(low.subspan(first), high.subspan(first));
  outlook.ever.lowest = std::min(outlook.ever.lowest, outlook.next.lowest) / kRangeMargin;
  outlook.ever.highest = std::max(outlook.ever.highest, outlook.next.highest) * kRangeMargin;
}

/// For each interval of the outlook, its intervals [from, to) of the forecast.
using Spans = std::vector<std::pair<std::size_t, std::size_t>>;

/// Returns the average grams per joule over the span.
template <class Grams>
double weight_of(const std::pair<std::size_t, std::size_t>& span, const Grams& grams) {
  double sum = 0;
  for (std::size_t i = span.first; i < span.second; ++i) sum += grams(i);
  return sum / static_cast<double>(span.second - span.first) / kJoulesPerKwh;
}

/// Returns the position in a series of `start`, negative if it is before the series.
std::int64_t offset_in(const carbon::IntensitySeries& series, carbon::UtcTime start) {
  return (start - series.start).count() / series.step.count();
}

/// Returns the position of `start` in the measured values; nullopt if too few values of the spans
/// are known.
std::optional<std::int64_t> came_from(const carbon::IntensitySeries& measured,
                                      carbon::UtcTime start, const Spans& spans) {
  const std::int64_t offset = offset_in(measured, start);
  const auto first = offset + static_cast<std::int64_t>(spans.front().first);
  const auto end = offset + static_cast<std::int64_t>(spans.back().second);
  if (first < 0 || end > static_cast<std::int64_t>(measured.size())) return std::nullopt;
  const auto unknown = std::count_if(measured.values.begin() + first, measured.values.begin() + end,
                                     [](double value) { return std::isnan(value); });
  if (static_cast<double>(unknown) > kMostUnknown * static_cast<double>(end - first)) {
    return std::nullopt;
  }
  return offset;
}

/// Adds outlooks with the errors of earlier forecasts.
/// \param fixed  the first interval is measured, so it has no error
void put_outlooks(IntensityOutlook& outlook, const IntensityReading& reading,
                  const Expected& expected, const Spans& spans, bool fixed) {
  const carbon::IntensitySeries& present = reading.forecast->expected;
  const carbon::IntensitySeries& measured = reading.record.measured;
  if (measured.values.empty() || measured.step != present.step) return;
  struct Known {
    const carbon::IntensitySeries* said;
    std::int64_t said_at, came_at;  ///< positions of the present forecast's first interval
  };
  std::vector<Known> known;
  std::size_t newest = 0;
  for (const carbon::EarlierForecast& one : reading.record.earlier) {
    const carbon::UtcTime start =
        present.start - carbon::whole_days(static_cast<std::int64_t>(one.days));
    const auto came_at = came_from(measured, start, spans);
    const std::int64_t said_at = offset_in(one.said, start);
    const auto first = said_at + static_cast<std::int64_t>(spans.front().first);
    if (!came_at || one.said.step != present.step || first < 0 ||
        first >= static_cast<std::int64_t>(one.said.size())) {
      continue;
    }
    if (known.empty()) newest = one.days;
    if (one.days >= newest + carbon::kErrorDays) break;
    known.push_back({&one.said, said_at, *came_at});
  }
  if (known.empty()) return;
  const std::vector<double> came = filled(measured.values);
  for (const std::size_t position : carbon::taken_of(known.size())) {
    const Known& one = known[position];
    const Expected said(*one.said);
    const auto grams = [&](std::size_t i) {
      const auto at = static_cast<std::int64_t>(i);
      return carbon::with_error(expected(i), came[static_cast<std::size_t>(one.came_at + at)],
                                said(static_cast<std::size_t>(one.said_at + at)));
    };
    carbon::WeightOutlook& weights = outlook.outlooks.emplace_back();
    for (const auto& span : spans) weights.push_back(weight_of(span, grams));
    if (fixed) weights.front() = outlook.intervals.front().weight;
  }
}

}  // namespace

const char* basis_of(const PresentIntensity& present) {
  return present.measured ? "measured" : "forecast";
}

std::string why_no_control(const IntensityReading& reading, Seconds now) {
  const auto& forecast = reading.forecast;
  const std::string because = reading.trouble.empty() ? "" : " (" + reading.trouble + ")";
  if (!forecast) return "there is no forecast of " + reading.identity.name() + because;
  if (!carbon::carbon_control_allowed(forecast->ladder)) {
    return "the forecast of " + reading.identity.name() + " is only " +
           std::string(carbon::text_of(forecast->ladder));
  }
  if (reading.current && !carbon::carbon_control_allowed(reading.current->ladder)) {
    return "the intensity of " + reading.identity.name() + " now is only known as " +
           std::string(carbon::text_of(reading.current->ladder)) + because;
  }
  const auto age = now - Seconds{static_cast<double>(forecast->issued_at.since_1970)};
  if (age > kOldestForecast || age < Seconds{0} - kOldestForecast) {
    return "the forecast of " + reading.identity.name() + " is for another time: made at " +
           carbon::utc_text(forecast->issued_at) + because;
  }
  const carbon::IntensitySeries& series = forecast->expected;
  const Seconds start{static_cast<double>(series.start.since_1970)};
  const Seconds end{static_cast<double>(series.end().since_1970)};
  if (now < start || now >= end) {
    return "the forecast of " + reading.identity.name() + " does not cover the present" + because;
  }
  return {};
}

std::optional<PresentIntensity> present_intensity(const IntensityReading& reading, Seconds now) {
  if (!why_no_control(reading, now).empty()) return std::nullopt;
  const carbon::LabelledForecast& forecast = *reading.forecast;
  const carbon::IntensitySeries& series = forecast.expected;
  const Seconds start{static_cast<double>(series.start.since_1970)};
  const auto at =
      static_cast<std::size_t>((now - start).value / static_cast<double>(series.step.count()));
  const auto& current = reading.current;
  if (current && current->ladder == carbon::LadderStep::kFresh &&
      current->intensity.kind == series.kind && current->start == series.start_of(at) &&
      current->step == series.step) {
    return PresentIntensity{.grams_per_kwh = current->intensity.grams_per_kwh,
                            .measured = true,
                            .known_since = current->fetched_at.value_or(current->start)};
  }
  return PresentIntensity{.grams_per_kwh = Expected(series)(at), .known_since = forecast.issued_at};
}

std::optional<carbon::LabelledIntensity> aged(
    const std::optional<carbon::LabelledIntensity>& current, carbon::UtcTime now) {
  if (!current || current->ladder == carbon::LadderStep::kYearlyMean) return current;
  carbon::LabelledIntensity found = *current;
  carbon::UtcTime end = found.start + found.step;
  if (found.ladder == carbon::LadderStep::kSameHourLastWeek) end += carbon::whole_days(7);
  const bool measured = found.ladder <= carbon::LadderStep::kLastGood;
  const bool asked_lately = !found.fetched_at || now < *found.fetched_at + found.step;
  if (measured && (now >= end + found.step || !asked_lately))
    found.ladder = carbon::LadderStep::kLastGood;
  const carbon::WholeSeconds allowed = measured ? 2 * found.step : carbon::WholeSeconds(0);
  // A value is valid for its interval, which excludes `end`. A measured value is valid for two more
  // steps, including the last second.
  if (now >= end + allowed + carbon::WholeSeconds(measured ? 1 : 0)) return std::nullopt;
  return found;
}

IntensityOutlook outlook_of(const IntensityReading& reading, Seconds now, Seconds until) {
  IntensityOutlook outlook{.why_not = why_no_control(reading, now)};
  if (!outlook.why_not.empty()) return outlook;
  const carbon::LabelledForecast& forecast = *reading.forecast;
  const carbon::IntensitySeries& series = forecast.expected;
  const double step = static_cast<double>(series.step.count());
  const Seconds start{static_cast<double>(series.start.since_1970)};
  const auto first = static_cast<std::size_t>((now - start).value / step);
  const Expected expected(series);
  const double present = std::min((until - now).value, kLongestPlanned);
  const auto count =
      static_cast<std::size_t>(std::max(0.0, std::ceil(((now - start).value + present) / step)));
  // The first interval, which the decision is for, keeps its length; days ahead can be coarser.
  const std::size_t together = (count - std::min(count, first)) / kMostOutlook + 1;
  Spans spans{{first, first + 1}};
  for (std::size_t i = first + 1; i < count; i += together) spans.emplace_back(i, i + together);
  for (const auto& span : spans) {
    const double begin = std::max(now.value, start.value + static_cast<double>(span.first) * step);
    const double end = start.value + static_cast<double>(span.second) * step;
    outlook.intervals.push_back({Seconds{end - begin}, weight_of(span, expected)});
  }

  outlook.present = *present_intensity(reading, now);
  outlook.intervals.front().weight = outlook.present.grams_per_kwh / kJoulesPerKwh;
  put_ranges(outlook, forecast, expected.values(), first);
  put_outlooks(outlook, reading, expected, spans, outlook.present.measured);
  outlook.step = carbon::text_of(forecast.ladder);
  outlook.may_control = true;
  return outlook;
}

}  // namespace harpe::training
