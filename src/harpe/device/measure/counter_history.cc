#include "harpe/device/measure/counter_history.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <vector>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr double kScaleTime = 10;        // s; time over which counter and power are compared
constexpr double kForgettingSteps = 30;  // length of the running mean of disagreements
constexpr double kUnknownScale = 0.05;   // relative error before counter and power were compared
// A counter is distrusted if its ratio to integrated power is beyond these after kStepsToDistrust.
constexpr double kLeastScale = 0.1, kMostScale = 10;
constexpr int kStepsToDistrust = 20;
// A rise this much steeper than the power seen shows a restart of the counter, not energy.
constexpr double kImpossible = 10, kImpossibleOffset = 2000;

}  // namespace

void CounterHistory::add(Instant time, Seconds spread, Joules reading, Seconds since_start,
                         SampledPower& power) {
  const double value = reading.value;
  if (!std::isfinite(value) || (counted_ && time <= *counted_)) return;
  counted_ = time;
  if (const auto last = steps_.last_value()) {
    const Knot* knot = knots_.empty() ? nullptr : &knots_.back();
    const double since = knot != nullptr ? (time - knot->time).value : since_start.value;
    const double most =
        kImpossible * (power.has_sensor() ? power.highest() : 1e9) + kImpossibleOffset;
    if (value < last->value || value - last->value > most * (since + 1)) {
      steps_.restart();
      restarted_ = !knots_.empty();
      restarts_ += 1;
    }
  }
  if (const auto step = steps_.add(time, spread, reading)) {
    add_knot(*step, power);
    place_knots(power);
  }
}

/// Moves the newest knots to their times as estimated from all readings so far.
void CounterHistory::place_knots(const SampledPower& power) {
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
      knot.at = power.at(time);
    }
    knot.own = step.own.value;
    knot.number = step.number;
    knot.on_line = step.on_line;
    knot.line_variance = step.common;
    knot.sigma = std::hypot(knot.own, std::sqrt(knot.line_variance));
  }
}

void CounterHistory::add_knot(const CounterStep& step, SampledPower& power) {
  Knot knot{.time = step.time,
            .sigma = step.sigma.value,
            .energy = step.value.value,
            .at = power.at(step.time),
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
                    square(scale_error(power) * used) +
                    square(knot.at.power * scale_) * (square(knot.sigma) + square(before.sigma));
    restarted_ = false;
    offset_ = knot.energy - step.value.value;
  } else {
    knot.energy += offset_;
    compare(before, knot, power);
  }
  knots_.push_back(knot);
}

/// Learns the variation of power without a sensor. Power within steps is unknown; it is assumed to
/// vary as much as from step to step.
void CounterHistory::learn_rate(double used, double time, SampledPower& power) {
  const double level = used / time;
  if (time < kShortSpan * steps_.period().value) {
    // Mostly error of the steps' times, so it is used only until there is a better level.
    if (compared_ == 0) scale_ = level;
    return;
  }
  const double rate = compared_ == 0 ? 0 : square(used / scale_ - time) / time;
  scale_ = compared_ == 0 ? level : scale_ + (level - scale_) / 4;
  power.set_rate(power.rate() + (rate - power.rate()) / std::min(10.0, compared_ + 1.0));
  compared_ += 1;
}

/// Learns the ratio of counter and power from one step of the counter.
void CounterHistory::compare(const Knot& before, const Knot& after, SampledPower& power) {
  const double used = after.energy - before.energy;
  const double time = (after.time - before.time).value;
  if (!power.has_sensor()) return learn_rate(used, time, power);
  if (time > std::max(3 * steps_.period().value, longest_interval_)) return;
  const Knot* oldest = &before;
  for (const Knot& knot : knots_ | std::views::reverse) {
    if (knot.restarts != after.restarts || (after.time - knot.time).value > kScaleTime) break;
    oldest = &knot;
  }
  const double by_power = after.at.integral - oldest->at.integral;
  if (by_power <= 0) return;
  // Over a short time the ratio is mostly error of the steps' times, so it is weighted against the
  // prior that both agree to within kUnknownScale.
  const double ratio = (after.energy - oldest->energy) / by_power;
  const double ratio_variance = square(std::max(ratio, 1.0) / by_power) *
                                (square(std::max(oldest->at.power, after.at.power)) *
                                     (square(oldest->sigma) + square(after.sigma)) +
                                 std::max(0.0, after.at.variance - oldest->at.variance));
  // If both do not agree at all, the prior is dropped.
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

double CounterHistory::scale_error(const SampledPower& power) const {
  if (!power.has_sensor()) return 0;
  if (compared_ < 1 || knots_.size() < 2) return scale_ * kUnknownScale;
  const double learnt = std::sqrt(scale_variance_);
  if (compared_ < 3) return std::max(learnt, scale_ * kUnknownScale / 2);
  const double step = steps_.period().value * power.highest();
  const double shown = std::sqrt(disagreement_ / compared_) / std::max(step, 1e-9);
  return std::max(learnt, std::min(scale_ * kUnknownScale, shown + 0.002 * scale_));
}

double CounterHistory::inflation(const SampledPower& power) const {
  const bool is_known = power.has_sensor() && compared_ > 3 && expected_ > 0;
  return is_known ? std::max(1.0, disagreement_ / expected_) : 1;
}

std::ptrdiff_t CounterHistory::knot_before(Instant time) const {
  const auto after = std::ranges::upper_bound(knots_, time, {}, &Knot::time) - knots_.begin();
  return usable_knot(after - 1, -1);
}

std::ptrdiff_t CounterHistory::usable_knot(std::ptrdiff_t from, std::ptrdiff_t direction) const {
  const auto count = static_cast<std::ptrdiff_t>(knots_.size());
  std::ptrdiff_t at = from;
  for (int skipped = 0; skipped <= kMostSkipped && at >= 0 && at < count; ++skipped) {
    if (is_placed(knots_[static_cast<std::size_t>(at)])) return at;
    at += direction;
  }
  return from;
}

bool CounterHistory::are_close(std::ptrdiff_t first, std::ptrdiff_t last) const {
  int steps = 0;
  for (std::ptrdiff_t i = last; i > first && steps <= 1; i = usable_knot(i - 1, -1)) steps += 1;
  return steps <= 1;
}

void CounterHistory::forget(Instant before) {
  const auto old_knots = std::ranges::lower_bound(knots_, before, {}, &Knot::time);
  const auto dropped = old_knots - knots_.begin();
  const auto kept = static_cast<std::ptrdiff_t>(knots_.size()) - dropped;
  const std::ptrdiff_t drop = kept >= 1 ? dropped : std::max<std::ptrdiff_t>(0, dropped - 1);
  knots_.erase(knots_.begin(), knots_.begin() + drop);
  first_knot_ += drop;
}

}  // namespace harpe::device
