#include "harpe/carbon_control/intensity_outlook.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace harpe {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
/// Beyond the expected, where a forecast has no interval of its own.
constexpr double kUnknownRange = 0.25;
constexpr double kRangeMargin = 1.05;
constexpr double kLongestPlanned = 366.0 * 86'400;  // s

/// With gaps filled by the value before.
std::vector<double> filled(const std::vector<double>& values) {
  std::vector<double> whole = values;
  const auto known = std::ranges::find_if(whole, [](double v) { return !std::isnan(v); });
  double before = known == whole.end() ? 0 : *known;
  for (double& value : whole) before = value = std::isnan(value) ? before : value;
  return whole;
}

/// Of interval `i` from the start of the forecast, also beyond its end.
class Expected {
 public:
  explicit Expected(const IntensitySeries& series) : values_(filled(series.values)) {
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

std::string refusal_of(const IntensityReading& reading, Seconds now) {
  const auto& forecast = reading.forecast;
  const std::string because = reading.trouble.empty() ? "" : " (" + reading.trouble + ")";
  if (!forecast) return "there is no forecast of " + reading.identity.name() + because;
  if (!carbon_control_allowed(forecast->ladder)) {
    return "the forecast of " + reading.identity.name() + " is only " +
           std::string(text_of(forecast->ladder));
  }
  if (reading.current && !carbon_control_allowed(reading.current->ladder)) {
    return "the intensity of " + reading.identity.name() + " now is only known as " +
           std::string(text_of(reading.current->ladder)) + because;
  }
  const auto age = now - Seconds{static_cast<double>(forecast->issued_at.since_1970)};
  if (age > kOldestForecast || age < Seconds{0} - kOldestForecast) {
    return "the forecast of " + reading.identity.name() + " is of another time: made at " +
           utc_text(forecast->issued_at) + because;
  }
  const IntensitySeries& series = forecast->expected;
  const Seconds start{static_cast<double>(series.start.since_1970)};
  const Seconds end{static_cast<double>(series.end().since_1970)};
  if (now < start || now >= end) {
    return "the forecast of " + reading.identity.name() + " does not tell of now" + because;
  }
  return {};
}

WeightRange range_of(std::span<const double> lower, std::span<const double> upper) {
  return {*std::ranges::min_element(lower) / kJoulesPerKwh,
          *std::ranges::max_element(upper) / kJoulesPerKwh};
}

void put_ranges(IntensityOutlook& outlook, const LabelledForecast& forecast,
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

}  // namespace

IntensityOutlook outlook_of(const IntensityReading& reading, Seconds now, Seconds until) {
  IntensityOutlook outlook{.why_not = refusal_of(reading, now)};
  if (!outlook.why_not.empty()) return outlook;
  const LabelledForecast& forecast = *reading.forecast;
  const IntensitySeries& series = forecast.expected;
  const double step = static_cast<double>(series.step.count());
  const Seconds start{static_cast<double>(series.start.since_1970)};
  const auto first = static_cast<std::size_t>((now - start).value / step);
  const Expected expected(series);
  const double present = std::min((until - now).value, kLongestPlanned);
  const auto count =
      static_cast<std::size_t>(std::max(0.0, std::ceil(((now - start).value + present) / step)));
  // The first is decided upon, and stays as short as it is; days ahead need not be that fine.
  const std::size_t together = (count - std::min(count, first)) / kMostOutlook + 1;
  const auto add = [&](std::size_t from, std::size_t to) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += expected(i) / static_cast<double>(to - from);
    const double begin = std::max(now.value, start.value + static_cast<double>(from) * step);
    const double end = start.value + static_cast<double>(to) * step;
    outlook.intervals.push_back({Seconds{end - begin}, sum / kJoulesPerKwh});
  };
  add(first, first + 1);
  for (std::size_t i = first + 1; i < count; i += together) add(i, i + together);

  const auto& current = reading.current;
  const UtcTime interval = series.start_of(first);
  outlook.measured = current && current->ladder == LadderStep::kFresh &&
                     current->intensity.kind == series.kind && current->start == interval &&
                     current->step == series.step;
  outlook.grams_per_kwh = outlook.measured ? current->intensity.grams_per_kwh : expected(first);
  outlook.intervals.front().weight = outlook.grams_per_kwh / kJoulesPerKwh;
  put_ranges(outlook, forecast, expected.values(), first);
  outlook.step = text_of(forecast.ladder);
  outlook.may_control = true;
  return outlook;
}

}  // namespace harpe
