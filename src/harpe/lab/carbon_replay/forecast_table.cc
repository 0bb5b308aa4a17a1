#include "harpe/lab/carbon_replay/forecast_table.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon/intensity_forecaster.h"

namespace harpe::lab {
namespace {

constexpr std::size_t kDays = 4, kRecentDays = 28;
constexpr std::size_t kProgressEvery = 256;
// The forecasts of the first days had little to learn from, so their errors are not used.
constexpr std::size_t kFirstDays = 30;

RecentIntensity recent_of(std::span<const double> values) {
  RecentIntensity recent;
  double before = carbon::kNoValue;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    const bool is_first = std::isnan(before);
    recent.lowest = is_first ? value : std::min(recent.lowest, value);
    recent.highest = is_first ? value : std::max(recent.highest, value);
    if (!is_first && before > 0) {
      recent.change = std::max(recent.change, std::abs(value / before - 1));
    }
    recent.last = before = value;
  }
  return recent;
}

/// Returns the mean at each time of the day, beginning with the slot after `values`, over the known
/// values of the last four weeks.
std::vector<float> usual_day(std::span<const double> values, std::size_t day) {
  std::vector<float> usual(day, static_cast<float>(carbon::kNoValue));
  for (std::size_t slot = 0; slot < day; ++slot) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t back = 1; back <= kRecentDays && back * day <= values.size() + slot; ++back) {
      const std::size_t i = values.size() + slot - back * day;
      if (i >= values.size() || std::isnan(values[i])) continue;
      sum += carbon::to_log(values[i]);
      ++count;
    }
    if (count > 0)
      usual[slot] = static_cast<float>(carbon::from_log(sum / static_cast<double>(count)));
  }
  return usual;
}

}  // namespace

Result<ForecastTable> ForecastTable::make(const carbon::IntensitySeries& series,
                                          const carbon::IntensitySeries* earlier,
                                          const std::function<void(double)>& progress,
                                          const carbon::ExogenousSeries* exogenous) {
  ForecastTable table;
  table.slots_per_day_ = series.slots_per_day();
  table.horizon_ = kDays * table.slots_per_day_;
  const auto known = std::ranges::find_if(series.values, [](double v) { return !std::isnan(v); });
  if (known == series.values.end()) return Error::invalid("the series has no value");
  table.first_value_ = *known;
  carbon::IntensitySeries all = series;
  if (earlier != nullptr) all = HARPE_TRY(carbon::joined(*earlier, series));
  const std::vector<double>& values = all.values;
  table.first_ = values.size() - series.size();
  const std::size_t weeks = kRecentDays * table.slots_per_day_;
  carbon::IntensityForecaster forecaster(
      {.slots_per_day = table.slots_per_day_, .horizon = table.horizon_}, exogenous);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& forecast = forecaster.forecast();
    for (std::size_t k = 0; k < table.horizon_; ++k) {
      table.expected_.push_back(
          static_cast<float>(forecast ? forecast->expected[k] : carbon::kNoValue));
    }
    const std::size_t from = i - std::min(i, weeks);
    const auto recent = std::span(values).subspan(from, i - from);
    if (i >= table.first_) table.recent_.push_back(recent_of(recent));
    const std::vector<float> usual = usual_day(recent, table.slots_per_day_);
    table.usual_.insert(table.usual_.end(), usual.begin(), usual.end());
    forecaster.observe(values[i]);
    if (progress && i % kProgressEvery == 0) {
      progress(static_cast<double>(i) / static_cast<double>(values.size()));
    }
  }
  table.values_ = carbon::with_gaps_filled(std::move(all)).values;
  return table;
}

/// Returns the forecast made before interval `issue` of both series, for `ahead` intervals later.
double ForecastTable::said(std::size_t issue, std::size_t ahead) const {
  const float* expected = expected_.data() + issue * horizon_;
  if (std::isnan(expected[0])) return first_value_;
  if (ahead < horizon_) return expected[ahead];
  const std::size_t slot = ahead % slots_per_day_;
  const float usual = usual_[issue * slots_per_day_ + slot];
  return std::isnan(usual) ? expected[horizon_ - slots_per_day_ + slot] : usual;
}

double ForecastTable::at(std::size_t issue, std::size_t target) const {
  const double expected = said(first_ + issue, target - issue);
  if (error_share_ == 1 || first_ + target >= values_.size()) return expected;
  const double came = carbon::to_log(values_[first_ + target]);
  return carbon::from_log(came + error_share_ * (carbon::to_log(expected) - came));
}

std::vector<std::vector<double>> ForecastTable::outlooks(std::size_t issue,
                                                         std::size_t count) const {
  const std::size_t now = first_ + issue;
  const std::size_t newest = (count + slots_per_day_ - 1) / slots_per_day_;
  std::size_t days = std::min(now / slots_per_day_, newest + carbon::kErrorDays - 1);
  days = std::min(days, now / slots_per_day_ - std::min(now / slots_per_day_, kFirstDays));
  std::vector<std::vector<double>> outlooks;
  if (days < newest) return outlooks;
  for (const std::size_t day : carbon::taken_of(days - newest + 1)) {
    const std::size_t then = now - (newest + day) * slots_per_day_;
    std::vector<double>& outlook = outlooks.emplace_back();
    for (std::size_t k = 0; k < count; ++k) {
      double forecast = said(then, k);
      const double value = values_[then + k];
      if (error_share_ != 1) {
        forecast =
            carbon::from_log(carbon::to_log(value) +
                             error_share_ * (carbon::to_log(forecast) - carbon::to_log(value)));
      }
      outlook.push_back(carbon::with_error(at(issue, issue + k), value, forecast));
    }
  }
  return outlooks;
}

}  // namespace harpe::lab
