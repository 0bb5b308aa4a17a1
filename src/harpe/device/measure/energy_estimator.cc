#include "harpe/device/measure/energy_estimator.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>
#include <vector>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

constexpr double kLongestRepeat = 0.25;  // s; a value repeated longer is the power, not its age
constexpr double kLongestPeriod = 0.5;   // of sensors, s
// What a sensor looks at: 25 of 100 ms on A100 and H100, 10 of 20 ms on V100, all of the time on
// others (arXiv 2312.02741). It is no longer than the time between two measurements.
constexpr double kUsualShare = 0.25, kUsualAge = 0.1;  // s
constexpr std::size_t kRenewals = 16, kEnoughRenewals = 3;
constexpr std::size_t kChanges = 64;
constexpr double kScaleTime = 10;        // over which counter and power are compared, s
constexpr double kForgettingSteps = 30;  // of the running mean of disagreements
// Samples far apart tell nothing of what lay between until some have been seen: standard deviation
// of the mean power between two of them, as a share.
constexpr std::size_t kFewChanges = 8;
constexpr double kUnknownBetween = 0.6;
constexpr double kUnknownScale = 0.05;  // relative error before counter and power were compared
// A counter is not believed whose joules are so far from the integrated power's.
constexpr double kLeastScale = 0.1, kMostScale = 10;
constexpr int kStepsToDistrust = 20;
// A rise so much steeper than the power seen is no energy, but a counter that started over.
constexpr double kImpossible = 10, kImpossibleOffset = 2000;

}  // namespace

std::string_view source_name(EnergySource source) {
  switch (source) {
    case EnergySource::kNone:
      break;
    case EnergySource::kCounter:
      return "counter";
    case EnergySource::kCounterAndPower:
      return "counter, edges by power";
    case EnergySource::kPowerInOneStep:
      return "power within a counter step";
    case EnergySource::kPower:
      return "integrated power";
    case EnergySource::kAveragePower:
      return "integrated average power";
  }
  return "none";
}

EnergyEstimator::EnergyEstimator(EstimatorOptions options)
    : options_(std::move(options)), steps_(options_.counter_step) {}

void EnergyEstimator::describe(Seconds power_window, Watts highest_power) {
  options_.power_window = power_window;
  options_.highest_power = highest_power;
}

bool EnergyEstimator::counter_due(Instant now, Seconds interval) const {
  return steps_.due(now, interval);
}

void EnergyEstimator::add(const EnergySample& sample) {
  if (newest_ && sample.time < *newest_) return;
  if (!first_) first_ = sample.time;
  newest_ = sample.time;
  const bool power_is_sound =
      sample.power && std::isfinite(sample.power->value) && sample.power->value >= 0;
  // A sensor that comes to life only once the counter has been followed without it comes too late.
  if (power_is_sound && (has_power_ || knots_.empty())) {
    if (!has_power_) {
      points_.clear();  // placeholders of a device that seemed to have no power sensor
      has_power_ = true;
    }
    // An average over the last second tells best of the middle of that second.
    add_power(sample.time + options_.power_window * -0.5, sample.power->value);
  } else if (!has_power_ && sample.counter) {
    add_power(sample.time, 1);
  }
  if (sample.counter) add_counter(sample);
  if (points_.size() > 64 && points_.front().time + options_.history * 2 < *newest_) {
    forget(*newest_ + -options_.history);
  }
}

void EnergyEstimator::add_first_power(Instant time, double power) {
  points_.push_back({.time = time,
                     .power = power,
                     .window = kUsualShare * kUsualAge,
                     .longest = kUsualAge,
                     .blur = kUsualAge / 2});
  looked_ = renewed_ = time;
  highest_ = power;
}

void EnergyEstimator::add_power(Instant time, double power) {
  if (!points_.empty() && time <= std::max(looked_, points_.back().time)) return;
  if (points_.empty()) {
    add_first_power(time, power);
    return;
  }
  // A sensor that is looked at more often than it measures repeats itself: only new values tell
  // something, and those are on average as old as half the time since the look before.
  const bool repeats = has_power_ && power == points_.back().power;
  const double since_look = (time - std::exchange(looked_, time)).value;
  if (repeats && (time - points_.back().time).value < kLongestRepeat) {
    repeated_ = true;
    return;
  }
  const bool is_new = has_power_ && !repeats;
  if (is_new) note_renewal(time, since_look);
  const double blur = is_new ? std::min(since_look, std::max(kUsualAge, sensor_period_)) / 2 : 0;
  if (blur > 0) time = std::max(time + Seconds{-blur}, points_.back().time + Seconds{1e-9});
  repeating_ = repeated_;
  repeated_ = false;
  const PowerPoint& last = points_.back();
  const double interval = (time - last.time).value;
  const double change = power - last.power;
  PowerPoint next{.time = time,
                  .power = power,
                  .integral = last.integral + interval * (power + last.power) / 2,
                  .variance = last.variance,
                  .unobserved = last.unobserved,
                  .window = kUsualShare * sensor_period_,
                  .longest = sensor_period_,
                  .blur = blur,
                  .repeats = repeats};
  highest_ = std::max(highest_, power);
  if (!has_power_) {
    next.variance += rate_ * interval;
  } else if (interval > options_.longest_interval.value) {
    // Anything between nothing and the highest may have been there: the bar reaches to both.
    const double mean = (power + last.power) / 2;
    next.variance += square(interval * std::max(highest_ - mean, mean) / kNinetyFivePercent);
    next.unobserved += interval;
  } else {
    // A jump at an unknown moment between the two, of which it is not known either just when they
    // were measured; one there and back that neither saw, about as likely as those that were seen
    // of late, more so where the sensor measures seldom; and noise, which every sample has its own
    // of.
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

/// Learns how often the power sensor measures from when its values are new. A measurement whose
/// value is that of the one before is not seen, so that the shorter times tell.
void EnergyEstimator::note_renewal(Instant time, double since_look) {
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

/// Learns from two samples how much power wanders, and how noisy they are.
void EnergyEstimator::note_change(double change, double interval) {
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

EnergyEstimator::PowerIntegral EnergyEstimator::power_at(Instant time) const {
  if (points_.empty()) return {};
  const auto held = [&](const PowerPoint& point, double away) {
    const double steps = std::max(1.0, std::abs(away) / typical_interval_);
    const bool hole = std::abs(away) > options_.longest_interval.value;
    const double drift = has_power_ ? (hole ? square(highest_) : wander_ * steps) / 3 : 0;
    const double noise = has_power_ ? square(noise_) : 0;
    const double variance =
        square(away) * (drift + noise) + (has_power_ ? 0 : rate_ * std::abs(away));
    const double sign = away < 0 ? -1 : 1;
    return PowerIntegral{.power = point.power,
                         .integral = point.integral + away * point.power,
                         .variance = point.variance + sign * variance,
                         .unobserved = point.unobserved + (hole ? away : 0)};
  };
  if (time <= points_.front().time) {
    return held(points_.front(), (time - points_.front().time).value);
  }
  if (time >= points_.back().time) return held(points_.back(), (time - points_.back().time).value);
  const auto after = std::ranges::upper_bound(points_, time, {}, &PowerPoint::time);
  const PowerPoint& b = *after;
  const PowerPoint& a = *std::prev(after);
  const double interval = (b.time - a.time).value;
  const double part = (time - a.time).value;
  const double share = part / interval;
  const double power = a.power + share * (b.power - a.power);
  return {.power = power,
          .integral = a.integral + part * (a.power + power) / 2,
          .variance = a.variance + share * (b.variance - a.variance),
          .unobserved = a.unobserved + share * (b.unobserved - a.unobserved)};
}

void EnergyEstimator::add_counter(const EnergySample& sample) {
  const double value = sample.counter->value;
  if (!std::isfinite(value) || (counted_ && sample.time <= *counted_)) return;
  counted_ = sample.time;
  if (const auto last = steps_.last_value()) {
    const Knot* knot = knots_.empty() ? nullptr : &knots_.back();
    const double since = (sample.time - (knot != nullptr ? knot->time : *first_)).value;
    const double most = kImpossible * (has_power_ ? highest_ : 1e9) + kImpossibleOffset;
    if (value < last->value || value - last->value > most * (since + 1)) {
      steps_.restart();
      restarted_ = !knots_.empty();
      restarts_ += 1;
    }
  }
  if (const auto step = steps_.add(sample.time, sample.spread, *sample.counter)) {
    add_knot(*step);
    place_knots();
  }
}

/// Puts the newest knots where all readings so far say that they came.
void EnergyEstimator::place_knots() {
  const std::vector<PlacedStep> placed = steps_.placed();
  const std::size_t count = std::min(placed.size(), knots_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const PlacedStep& step = placed[placed.size() - count + i];
    const std::size_t index = knots_.size() - count + i;
    Knot& knot = knots_[index];
    Instant time = step.time;
    if (index > 0) time = std::max(time, {knots_[index - 1].time.ns + 1});
    if (time != knot.time) {
      knot.time = time;
      knot.at = power_at(time);
    }
    knot.own = step.own.value;
    knot.number = step.number;
    knot.on_line = step.on_line;
    knot.line_variance = step.common;
    knot.sigma = std::hypot(knot.own, std::sqrt(knot.line_variance));
  }
}

void EnergyEstimator::add_knot(const CounterStep& step) {
  Knot knot{.time = step.time,
            .sigma = step.sigma.value,
            .energy = step.value.value,
            .at = power_at(step.time),
            .restarts = restarts_,
            .earliest = step.earliest,
            .latest = step.latest,
            .own = step.sigma.value};
  if (knots_.empty()) {
    knots_.push_back(knot);
    return;
  }
  const Knot before = knots_.back();
  if (knot.time <= before.time) knot.time = {before.time.ns + 1};
  knot.bridged = before.bridged;
  if (restarted_) {
    const double used = std::max(0.0, knot.at.integral - before.at.integral);
    knot.energy = before.energy + scale_ * used;
    knot.bridged += square(scale_) * std::max(0.0, knot.at.variance - before.at.variance) +
                    square(scale_error() * used) +
                    square(knot.at.power * scale_) * (square(knot.sigma) + square(before.sigma));
    restarted_ = false;
    offset_ = knot.energy - step.value.value;
  } else {
    knot.energy += offset_;
    compare(before, knot);
  }
  knots_.push_back(knot);
}

/// Learns from one step of the counter how power relates to it.
void EnergyEstimator::compare(const Knot& before, const Knot& after) {
  const double used = after.energy - before.energy;
  const double time = (after.time - before.time).value;
  if (!has_power_) {
    // Power is unknown between steps: how much it varies from step to step says how far it may
    // have varied within.
    const double level = used / time;
    if (time < kShortSpan * steps_.period().value) {
      // Not knowing just when the counter stepped is most of it: better than nothing, and no more.
      if (compared_ == 0) scale_ = level;
      return;
    }
    const double rate = compared_ == 0 ? 0 : square(used / scale_ - time) / time;
    scale_ = compared_ == 0 ? level : scale_ + (level - scale_) / 4;
    rate_ += (rate - rate_) / std::min(10.0, compared_ + 1.0);
    compared_ += 1;
    return;
  }
  if (time > std::max(3 * steps_.period().value, options_.longest_interval.value)) return;
  const Knot* oldest = &before;
  for (const Knot& knot : knots_ | std::views::reverse) {
    if (knot.restarts != after.restarts || (after.time - knot.time).value > kScaleTime) break;
    oldest = &knot;
  }
  const double by_power = after.at.integral - oldest->at.integral;
  if (by_power <= 0) return;
  // Over a short time the ratio of both is little more than not knowing when the counter stepped:
  // it is weighed against their agreeing to within kUnknownScale.
  const double ratio = (after.energy - oldest->energy) / by_power;
  const double ratio_variance = square(std::max(ratio, 1.0) / by_power) *
                                (square(std::max(oldest->at.power, after.at.power)) *
                                     (square(oldest->sigma) + square(after.sigma)) +
                                 std::max(0.0, after.at.variance - oldest->at.variance));
  // Where they do not agree at all, that is no prior.
  const bool absurd = ratio < kLeastScale || ratio > kMostScale;
  const double prior = absurd ? 1e9 : square(kUnknownScale);
  const double scale = (ratio * prior + ratio_variance) / (prior + ratio_variance);
  scale_variance_ = prior * ratio_variance / (prior + ratio_variance);
  const double integral = after.at.integral - before.at.integral;
  const double explained =
      square(after.at.power * scale) * (square(before.sigma) + square(after.sigma)) +
      square(scale) * (after.at.variance - before.at.variance);
  const double weight = 1 / std::min(kForgettingSteps, compared_ + 1.0);
  if (compared_ > 0) {
    disagreement_ += weight * (square(used - scale * integral) - disagreement_);
    expected_ += weight * (explained - expected_);
  }
  scale_ = scale;
  compared_ += 1;
  if (compared_ >= kStepsToDistrust && (scale_ < kLeastScale || scale_ > kMostScale)) {
    distrusted_ = true;
  }
}

/// Relative standard error of the scale, times the scale.
double EnergyEstimator::scale_error() const {
  if (!has_power_) return 0;
  if (compared_ < 1 || knots_.size() < 2) return scale_ * kUnknownScale;
  const double learnt = std::sqrt(scale_variance_);
  if (compared_ < 3) return std::max(learnt, scale_ * kUnknownScale / 2);
  const double step = steps_.period().value * highest_;
  const double shown = std::sqrt(disagreement_ / compared_) / std::max(step, 1e-9);
  return std::max(learnt, std::min(scale_ * kUnknownScale, shown + 0.002 * scale_));
}

void EnergyEstimator::forget(Instant before) {
  for (auto& [handle, window] : windows_) {
    if (!window.edge && window.begin <= before)
      window.edge = edge(window.begin, WindowEnd::kOfWork);
  }
  const auto old_points = std::ranges::lower_bound(points_, before, {}, &PowerPoint::time);
  points_.erase(points_.begin(), std::min(old_points, std::prev(points_.end())));
  const auto old_knots = std::ranges::lower_bound(knots_, before, {}, &Knot::time);
  const auto dropped = old_knots - knots_.begin();
  const auto kept = static_cast<std::ptrdiff_t>(knots_.size()) - dropped;
  const std::ptrdiff_t drop = kept >= 1 ? dropped : std::max<std::ptrdiff_t>(0, dropped - 1);
  knots_.erase(knots_.begin(), knots_.begin() + drop);
  first_knot_ += drop;
}

}  // namespace harpe
