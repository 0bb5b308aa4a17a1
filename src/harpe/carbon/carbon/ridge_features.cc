#include "harpe/carbon/carbon/ridge_features.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harpe/carbon/carbon/same_hour.h"

namespace harpe {
namespace {

// Of features beside the lags: a feature of this size is shrunk as much as a lag of 20 % swing.
constexpr double kTypicalSwing = 0.2;
constexpr int kWeekWaves = 3;           // as many as seven weekdays can have
constexpr std::size_t kScaleDays = 28;  // what exogenous values are centred and scaled by
constexpr std::size_t kMeasuredHours[] = {0, 1, 2, 3, 6, 12, 23, 47};  // back
constexpr std::size_t kAheadHours = 3;  // apart, after the first three

std::size_t steps_of(std::size_t hours, std::size_t slots_per_day) {
  return hours * slots_per_day / 24;
}

void sort_unique(auto& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

/// Gaps take the last value known.
std::vector<double> without_gaps(const std::vector<double>& values) {
  std::vector<double> filled = values;
  double last = 0;
  for (double& value : filled) {
    if (std::isnan(value)) value = last;
    last = value;
  }
  return filled;
}

}  // namespace

RidgeFeatures::RidgeFeatures(const HourRidgeOptions& options, const ForecastGrid& grid,
                             const ExogenousSeries* exogenous)
    : day_(grid.slots_per_day) {
  for (const int hours : options.lag_hours)
    lags_.push_back(steps_of(static_cast<std::size_t>(hours), day_));
  // Of steps below an hour, the newest three hours step by step.
  if (day_ > 24) {
    for (std::size_t lag = 0; lag < steps_of(3, day_); ++lag) lags_.push_back(lag);
  }
  sort_unique(lags_);
  first_step_ = std::max(lags_.back(), kProfileDays * day_ - 1);
  if (exogenous != nullptr && !exogenous->columns.empty()) {
    for (const auto& column : exogenous->columns) exogenous_.push_back(without_gaps(column.values));
    for (const std::size_t hours : kMeasuredHours) {
      exogenous_steps_.push_back(-static_cast<std::ptrdiff_t>(steps_of(hours, day_)));
    }
    const std::size_t near = steps_of(kAheadHours, day_);
    for (std::size_t ahead = 1; ahead <= exogenous->known_ahead; ++ahead) {
      const bool whole_hour = ahead * 24 % day_ == 0;
      if (whole_hour && (ahead <= near || ahead % std::max<std::size_t>(1, near) == 0))
        exogenous_steps_.push_back(static_cast<std::ptrdiff_t>(ahead));
    }
    sort_unique(exogenous_steps_);
    first_step_ = std::max(first_step_, kScaleDays * day_);
    scale_exogenous(kScaleDays * day_);
  }
  count_ = lags_.size() + 2 * kWeekWaves + exogenous_.size() * exogenous_steps_.size() + 2;
}

void RidgeFeatures::scale_exogenous(std::size_t steps) {
  for (std::vector<double>& values : exogenous_) {
    const std::size_t count = std::min(steps, values.size());
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
    const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
    for (std::size_t i = 0; i < count; ++i) squares += (values[i] - mean) * (values[i] - mean);
    const double deviation = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
    const double factor = kTypicalSwing / (deviation > 0 ? deviation : 1);
    // What never moved in the first weeks and then does is kept within sense.
    for (double& value : values) value = std::clamp((value - mean) * factor, -10.0, 10.0);
  }
}

void RidgeFeatures::write(const LogHistory& history, std::size_t i, std::span<double> x) {
  const auto mean_of_day = [&](std::size_t last) {
    double sum = 0;
    for (std::size_t k = 0; k < day_; ++k) sum += history[last - k];
    return sum / static_cast<double>(day_);
  };
  if (!centered_) center_ = mean_of_day(i);
  centered_ = true;
  const double mean = mean_of_day(i);
  std::size_t at = 0;
  for (const std::size_t lag : lags_) x[at++] = history[i - lag] - mean;
  x[at++] = 0.5 * (mean - center_);
  const double week = static_cast<double>(i % (7 * day_)) / static_cast<double>(7 * day_);
  for (int wave = 1; wave <= kWeekWaves; ++wave) {
    const double angle = 2 * std::numbers::pi * wave * week;
    x[at++] = kTypicalSwing * std::sin(angle);
    x[at++] = kTypicalSwing * std::cos(angle);
  }
  for (const std::vector<double>& values : exogenous_) {
    for (const std::ptrdiff_t step : exogenous_steps_) {
      const auto source = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) + step);
      x[at++] = source < values.size() ? values[source] : values.back();
    }
  }
  x[at] = kTypicalSwing;
}

}  // namespace harpe
