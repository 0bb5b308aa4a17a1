#include "harpe/carbon_replay/forecast_table.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "harpe/carbon/intensity_forecaster.h"

namespace harpe {
namespace {

constexpr std::size_t kDays = 4, kDaysBeyond = 2, kRecentDays = 28;
constexpr std::size_t kProgressEvery = 256;

RecentIntensity recent_of(std::span<const double> values) {
  RecentIntensity recent;
  double before = kNoValue;
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

}  // namespace

Result<ForecastTable> ForecastTable::make(const IntensitySeries& series,
                                          const IntensitySeries* earlier,
                                          const std::function<void(double)>& progress) {
  ForecastTable table;
  table.slots_per_day_ = series.slots_per_day();
  table.horizon_ = kDays * table.slots_per_day_;
  const auto known = std::ranges::find_if(series.values, [](double v) { return !std::isnan(v); });
  if (known == series.values.end()) return Error::invalid("the series has no value");
  table.first_ = *known;
  std::vector<double> all = series.values;
  if (earlier != nullptr) all = HARPE_TRY(joined(*earlier, series)).values;
  const std::size_t first = all.size() - series.size();
  const std::size_t weeks = kRecentDays * table.slots_per_day_;
  IntensityForecaster forecaster(
      {.slots_per_day = table.slots_per_day_, .horizon = table.horizon_});
  for (std::size_t i = 0; i < first; ++i) forecaster.observe(all[i]);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto& forecast = forecaster.forecast();
    for (std::size_t k = 0; k < table.horizon_; ++k) {
      table.expected_.push_back(static_cast<float>(forecast ? forecast->expected[k] : kNoValue));
    }
    const std::size_t known_until = first + i;
    const std::size_t from = known_until - std::min(known_until, weeks);
    table.recent_.push_back(recent_of(std::span(all).subspan(from, known_until - from)));
    forecaster.observe(series.values[i]);
    if (progress && i % kProgressEvery == 0) {
      progress(static_cast<double>(i) / static_cast<double>(series.size()));
    }
  }
  return table;
}

double ForecastTable::at(std::size_t issue, std::size_t target) const {
  const float* said = expected_.data() + issue * horizon_;
  const std::size_t ahead = target - issue;
  if (std::isnan(said[0])) return first_;
  if (ahead < horizon_) return said[ahead];
  double sum = 0;
  const std::size_t slot = ahead % slots_per_day_;
  for (std::size_t day = kDays - kDaysBeyond; day < kDays; ++day) {
    sum += said[day * slots_per_day_ + slot];
  }
  return sum / kDaysBeyond;
}

}  // namespace harpe
