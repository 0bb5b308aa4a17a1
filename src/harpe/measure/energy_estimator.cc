#include "harpe/measure/energy_estimator.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>
#include <vector>

namespace harpe {
namespace {

constexpr double kNinetyFivePercent = 1.959964;
constexpr double kLongestRepeat = 0.25;  // s; a value repeated longer is the power, not its age
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
// What a sensor that measures seldom misses is nothing or much: wider than a normal distribution.
constexpr double kHeavyTails = 1.25;
// Standard error at an edge, as a share of the power over the averaging time.
constexpr double kHiddenByAverage = 0.1;
constexpr double kLeastVariance = 1e-6;  // counters count in mJ
constexpr int kStepsToDistrust = 20;
constexpr double kShortSpan = 10;  // steps of a counter without power that say little of its slope
// A rise so much steeper than the power seen is no energy, but a counter that started over.
constexpr double kImpossible = 10, kImpossibleOffset = 2000;

double square(double x) {
  return x * x;
}

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

bool EnergyEstimator::counter_due(Instant now, Seconds interval) const {
  return steps_.due(now, interval);
}

void EnergyEstimator::add(const EnergySample& sample) {
  if (newest_ && sample.time <= *newest_) return;
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

void EnergyEstimator::add_power(Instant time, double power) {
  if (points_.empty()) {
    points_.push_back({.time = time, .power = power});
    looked_ = time;
    highest_ = power;
    return;
  }
  // A sensor that is looked at more often than it measures repeats itself: only new values tell
  // something, and those are on average as old as half the time since the look before.
  const bool repeats = has_power_ && power == points_.back().power;
  const Instant looked = std::exchange(looked_, time);
  if (repeats && (time - points_.back().time).value < kLongestRepeat) {
    repeated_ = true;
    return;
  }
  if (repeated_ && !repeats) {
    time = std::max(time + (time - looked) * -0.5, points_.back().time + Seconds{1e-9});
  }
  repeating_ = repeated_;
  repeated_ = false;
  const PowerPoint& last = points_.back();
  const double interval = (time - last.time).value;
  const double change = power - last.power;
  PowerPoint next{.time = time,
                  .power = power,
                  .integral = last.integral + interval * (power + last.power) / 2,
                  .variance = last.variance,
                  .unobserved = last.unobserved};
  highest_ = std::max(highest_, power);
  if (!has_power_) {
    next.variance += rate_ * interval;
  } else if (interval > options_.longest_interval.value) {
    // Anything between nothing and the highest may have been there: the bar reaches to both.
    const double mean = (power + last.power) / 2;
    next.variance += square(interval * std::max(highest_ - mean, mean) / kNinetyFivePercent);
    next.unobserved += interval;
  } else {
    // A jump at an unknown moment between the two; one there and back that neither saw, about as
    // likely as those that were seen of late, more so where the sensor measures seldom; and noise,
    // which every sample has its own of.
    next.variance += square(interval) *
                     ((square(change) + (repeating_ ? 1 : 0.25) * wander_) / 12 + square(noise_));
    if (interval > kLongestRepeat && changes_.size() < kFewChanges) {
      next.variance += square(interval * kUnknownBetween * (power + last.power) / 2);
    }
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
  points_.push_back(next);
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
  if (!std::isfinite(value)) return;
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
  const bool first = !has_power_ && knots_.empty() && !steps_.last_value();
  const auto step = steps_.add(sample.time, sample.spread, *sample.counter);
  if (step) add_knot(*step);
  if (first) {
    // It stepped to this value within the last period, however long the next reading is away.
    const double period = steps_.period().value;
    add_knot({.time = sample.time + Seconds{-period / 2},
              .sigma = {period / std::sqrt(12.0)},
              .value = *sample.counter});
  }
}

void EnergyEstimator::add_knot(const CounterStep& step) {
  Knot knot{.time = step.time,
            .sigma = step.sigma.value,
            .energy = step.value.value,
            .at = power_at(step.time),
            .restarts = restarts_};
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
  const double prior = square(kUnknownScale);
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

EnergyEstimator::Edge EnergyEstimator::edge(Instant time) const {
  Edge edge{.time = time, .at = power_at(time), .restarts = restarts_};
  if (knots_.empty()) return edge;
  edge.on_counter = true;
  const double inflation =
      has_power_ && compared_ > 3 && expected_ > 0 ? std::max(1.0, disagreement_ / expected_) : 1;
  edge.inflation = inflation;
  const auto after = std::ranges::upper_bound(knots_, time, {}, &Knot::time);
  if (after == knots_.begin() || after == knots_.end()) {  // beyond the steps that are known
    const Knot& knot = after == knots_.begin() ? knots_.front() : knots_.back();
    const double integral = edge.at.integral - knot.at.integral;
    edge.energy = knot.energy + scale_ * integral;
    edge.variance = inflation * (square(scale_ * edge.at.power * knot.sigma) +
                                 square(scale_) * std::abs(edge.at.variance - knot.at.variance)) +
                    square(scale_error() * integral);
    edge.bridged = knot.bridged;
    edge.knot = after == knots_.begin()
                    ? first_knot_ - 1
                    : first_knot_ + static_cast<std::int64_t>(knots_.size()) - 1;
    edge.restarts = after == knots_.begin() ? knot.restarts : restarts_;
    return edge;
  }
  const Knot& b = *after;
  const Knot& a = *std::prev(after);
  // Without power the counter alone says how much was used between its two steps.
  const double over = b.at.integral - a.at.integral;
  const double scale = !has_power_ && over > 0 ? (b.energy - a.energy) / over : scale_;
  // Forward from the step before, backward from the step after; each as good as its step's time
  // and the power in between.
  const double total = std::max(b.at.variance - a.at.variance, 0.0);
  const double part = std::clamp(edge.at.variance - a.at.variance, 0.0, total);
  const double forward =
      inflation * (square(scale * a.at.power * a.sigma) + square(scale) * part) + kLeastVariance;
  const double backward =
      inflation * (square(scale * b.at.power * b.sigma) + square(scale) * (total - part)) +
      kLeastVariance;
  edge.residual = b.energy - a.energy - scale * over;
  edge.residual_variance = forward + backward;
  edge.energy = a.energy + scale * (edge.at.integral - a.at.integral) +
                edge.residual * forward / (forward + backward);
  edge.energy = std::clamp(edge.energy, a.energy, b.energy);
  edge.variance = forward * backward / (forward + backward);
  const double share = (time - a.time) / (b.time - a.time);
  edge.bridged = a.bridged + share * (b.bridged - a.bridged);
  edge.restarts = a.restarts;
  edge.knot = first_knot_ + (std::prev(after) - knots_.begin());
  return edge;
}

EnergyEstimate EnergyEstimator::difference(const Edge& begin, const Edge& end) const {
  EnergyEstimate result{.time = end.time - begin.time,
                        .unobserved = {end.at.unobserved - begin.at.unobserved}};
  double variance = 0;
  const double power_variance = std::max(0.0, end.at.variance - begin.at.variance);
  const bool by_counter = !distrusted_ && begin.on_counter && end.on_counter;
  if (!by_counter) {
    result.energy = {end.at.integral - begin.at.integral};
    variance = power_variance;
    result.source = !has_power_                       ? EnergySource::kNone
                    : options_.power_window.value > 0 ? EnergySource::kAveragePower
                                                      : EnergySource::kPower;
    if (options_.power_window.value > 0) {
      // What happened within the time that the sensor averages over is hidden, at both edges.
      variance += square(kHiddenByAverage * options_.power_window.value) *
                  (square(begin.at.power) + square(end.at.power));
    }
    if (!has_power_) return result;
  } else if (begin.knot == end.knot) {
    const double integral = end.at.integral - begin.at.integral;
    variance = end.inflation * square(scale_) * power_variance + square(scale_error() * integral);
    double energy = scale_ * integral;
    if (end.residual_variance > 0) {  // what the whole step was off by, this part's share of it
      const double share = std::min(1.0, variance / end.residual_variance);
      energy += share * end.residual;
      variance *= 1 - share;
    }
    result.energy = {energy};
    result.source = has_power_ ? EnergySource::kPowerInOneStep : EnergySource::kCounter;
  } else {
    result.energy = {end.energy - begin.energy};
    variance = begin.variance + end.variance + std::max(0.0, end.bridged - begin.bridged);
    result.source = has_power_ ? EnergySource::kCounterAndPower : EnergySource::kCounter;
  }
  if (!has_power_) {
    // Each edge lies somewhere within a step; over a few steps their height is not known well.
    const double step = scale_ * steps_.period().value;
    const bool is_short = result.time.value < kShortSpan * steps_.period().value;
    variance = std::max(variance, square(step) / 6 * (is_short ? 4 : 1));
  }
  result.energy.value = std::max(0.0, result.energy.value);
  // Few steps tell little of how well counter and power agree: near to Student's t.
  const double few = by_counter && has_power_ ? 1 + 1.0 / (compared_ + 1) : 1;
  result.error = {kNinetyFivePercent * few * (repeating_ ? kHeavyTails : 1) * std::sqrt(variance)};
  result.sensor_error = result.energy * options_.accuracy.share;
  if (by_counter) result.restarts = end.restarts - begin.restarts;
  if (has_power_ && compared_ >= 3) result.counter_per_power = scale_;
  return result;
}

EnergyEstimate EnergyEstimator::between(Instant begin, Instant end) const {
  if (!newest_ || end < begin) return {};
  return difference(edge(begin), edge(end));
}

int EnergyEstimator::open(Instant begin) {
  windows_[next_window_] = {.begin = begin, .edge = std::nullopt};
  return next_window_++;
}

EnergyEstimate EnergyEstimator::so_far(int window, Instant end) const {
  const auto found = windows_.find(window);
  if (found == windows_.end() || !newest_ || end < found->second.begin) return {};
  return difference(found->second.edge ? *found->second.edge : edge(found->second.begin),
                    edge(end));
}

EnergyEstimate EnergyEstimator::close(int window, Instant end) {
  const EnergyEstimate result = so_far(window, end);
  windows_.erase(window);
  return result;
}

Joules EnergyEstimator::total(Instant now) {
  if (!first_) return {0};
  if (!total_window_) total_window_ = open(*first_);
  reported_total_ = std::max(reported_total_, so_far(*total_window_, now).energy.value);
  return {reported_total_};
}

void EnergyEstimator::forget(Instant before) {
  for (auto& [handle, window] : windows_) {
    if (!window.edge && window.begin <= before) window.edge = edge(window.begin);
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
