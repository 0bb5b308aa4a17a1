#include "harpe/device/measure/sampled_power.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr double kLongestRepeat = 0.25;  // s; a value that repeats for longer was measured again
constexpr double kLongestPeriod = 0.5;   // of sensors, s
// The part of the time that a sensor measures: 25 of 100 ms on A100 and H100, 10 of 20 ms on V100,
// all of it on others (arXiv 2312.02741). At most the time between two measurements.
constexpr double kUsualShare = 0.25, kUsualAge = 0.1;  // s
constexpr std::size_t kRenewals = 16, kEnoughRenewals = 3;
constexpr std::size_t kChanges = 64;
// Relative standard deviation of the mean power between two distant samples, while fewer than
// kFewChanges changes between samples are known.
constexpr std::size_t kFewChanges = 8;
constexpr double kUnknownBetween = 0.6;

}  // namespace

void SampledPower::add(Instant time, double power) {
  if (!has_sensor_) points_.clear();
  has_sensor_ = true;
  add_point(time, power);
}

void SampledPower::add_without_sensor(Instant time) {
  add_point(time, 1);
}

void SampledPower::add_first(Instant time, double power) {
  points_.push_back({.time = time,
                     .power = power,
                     .window = kUsualShare * kUsualAge,
                     .longest = kUsualAge,
                     .blur = kUsualAge / 2});
  looked_ = renewed_ = time;
  highest_ = power;
}

void SampledPower::add_point(Instant time, double power) {
  if (!points_.empty() && time <= std::max(looked_, points_.back().time)) return;
  if (points_.empty()) {
    add_first(time, power);
    return;
  }
  // A sensor that is read more often than it measures repeats values. Only new values carry
  // information; their average age is half the time since the previous reading.
  const bool repeats = has_sensor_ && power == points_.back().power;
  const double since_look = (time - std::exchange(looked_, time)).value;
  if (repeats && (time - points_.back().time).value < kLongestRepeat) {
    repeated_ = true;
    return;
  }
  const bool is_new = has_sensor_ && !repeats;
  if (is_new) note_renewal(time, since_look);
  const double blur = is_new ? std::min(since_look, std::max(kUsualAge, sensor_period_)) / 2 : 0;
  if (blur > 0) time = std::max(time + Seconds{-blur}, points_.back().time + Seconds{1e-9});
  repeating_ = repeated_;
  repeated_ = false;
  const Point& last = points_.back();
  const double interval = (time - last.time).value;
  const double change = power - last.power;
  Point next{.time = time,
             .power = power,
             .integral = last.integral + interval * (power + last.power) / 2,
             .variance = last.variance,
             .unobserved = last.unobserved,
             .window = kUsualShare * sensor_period_,
             .longest = sensor_period_,
             .blur = blur,
             .repeats = repeats};
  highest_ = std::max(highest_, power);
  if (!has_sensor_) {
    next.variance += rate_ * interval;
  } else if (interval > longest_interval_) {
    // Power may have been anything from 0 to the highest: the error bar reaches to both.
    const double mean = (power + last.power) / 2;
    next.variance += square(interval * std::max(highest_ - mean, mean) / kNinetyFivePercent);
    next.unobserved += interval;
  } else {
    // The parts of the variance: the unknown times of the measurements; a jump at an unknown
    // instant between them; a change there and back that no sample shows, about as large as recent
    // changes, and larger if the sensor measures rarely; and the noise of each sample.
    next.variance += square(blur * change) / 3;
    next.variance += square(interval) *
                     ((square(change) + (repeating_ ? 1 : 0.25) * wander_) / 12 + square(noise_));
    if (interval > kLongestRepeat && changes_.size() < kFewChanges) {
      next.variance += square(interval * kUnknownBetween * (power + last.power) / 2);
    }
    note_change(change, interval);
  }
  points_.push_back(next);
}

/// Learns the measurement period of the power sensor from the times of new values. A measurement
/// that repeats the previous value is not seen, so the shorter times determine the period.
void SampledPower::note_renewal(Instant time, double since_look) {
  const double since = (time - std::exchange(renewed_, time)).value;
  if (since_look > kUsualAge / 2) return;
  renewals_.push_back(since);
  if (renewals_.size() > kRenewals) renewals_.pop_front();
  if (renewals_.size() < kEnoughRenewals) return;
  std::vector<double> sorted(renewals_.begin(), renewals_.end());
  const auto quarter = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 4);
  std::ranges::nth_element(sorted, quarter);
  sensor_period_ = std::min(*quarter, kLongestPeriod);
}

/// Learns the variation of power and the noise of samples from the change between two samples.
void SampledPower::note_change(double change, double interval) {
  typical_interval_ += (interval - typical_interval_) / 16;
  changes_.push_back(std::abs(change));
  if (changes_.size() > kChanges) changes_.pop_front();
  wander_ += (square(change) - wander_) / static_cast<double>(changes_.size());
  if (points_.size() % 8 == 0 || changes_.size() < 16) {
    std::vector<double> sorted(changes_.begin(), changes_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::ranges::nth_element(sorted, middle);
    noise_ = *middle / 0.954;  // the median change is 0.6745 * sqrt(2) standard deviations
  }
}

/// Returns the integral `away` seconds after the last point, or before the first if negative.
SampledPower::Integral SampledPower::held(const Point& point, double away) const {
  const double steps = std::max(1.0, std::abs(away) / typical_interval_);
  const bool hole = std::abs(away) > longest_interval_;
  const double drift = has_sensor_ ? (hole ? square(highest_) : wander_ * steps) / 3 : 0;
  const double noise = has_sensor_ ? square(noise_) : 0;
  const double variance =
      square(away) * (drift + noise) + (has_sensor_ ? 0 : rate_ * std::abs(away));
  const double sign = away < 0 ? -1 : 1;
  return {.power = point.power,
          .integral = point.integral + away * point.power,
          .variance = point.variance + sign * variance,
          .unobserved = point.unobserved + (hole ? away : 0)};
}

SampledPower::Integral SampledPower::at(Instant time) const {
  if (points_.empty()) return {};
  if (time <= points_.front().time) {
    return held(points_.front(), (time - points_.front().time).value);
  }
  if (time >= points_.back().time) return held(points_.back(), (time - points_.back().time).value);
  const auto after = std::ranges::upper_bound(points_, time, {}, &Point::time);
  const Point& b = *after;
  const Point& a = *std::prev(after);
  const double interval = (b.time - a.time).value;
  const double part = (time - a.time).value;
  const double share = part / interval;
  const double power = a.power + share * (b.power - a.power);
  return {.power = power,
          .integral = a.integral + part * (a.power + power) / 2,
          .variance = a.variance + share * (b.variance - a.variance),
          .unobserved = a.unobserved + share * (b.unobserved - a.unobserved)};
}

void SampledPower::forget(Instant before) {
  const auto old = std::ranges::lower_bound(points_, before, {}, &Point::time);
  points_.erase(points_.begin(), std::min(old, std::prev(points_.end())));
}

}  // namespace harpe::device
