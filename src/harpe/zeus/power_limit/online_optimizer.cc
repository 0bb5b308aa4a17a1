#include "harpe/zeus/power_limit/online_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/zeus/power_limit/setting_model.h"

namespace harpe::zeus {
namespace {

// Least relative deviation of a step that a bound assumes: counters that do not change for some
// steps would show no deviation.
constexpr double kLeastDeviation = 0.01;
// Blocks double up to 2^10 times the first one, so that a change of the job is noticed within one.
constexpr int kMostDoublings = 10;
// The highest setting is left only if the budget covers this many steps at their worst; another
// setting is kept while it covers one. Otherwise settings would change at every other step.
constexpr double kReserveToLeave = 2;
// As for profiling (ProfilerOptions::least_gain).
constexpr double kLeastGain = 0.0003;

}  // namespace

OnlineOptimizer::OnlineOptimizer(Knob knob, OnlineOptions options)
    : knob_(std::move(knob)),
      options_(options),
      weights_(weights_of(options_.selector, knob_.size() > 0 ? knob_[0] : 0)),
      arms_(knob_.size()) {}

Result<OnlineOptimizer> OnlineOptimizer::make(Knob knob, OnlineOptions options) {
  HARPE_TRY(check(options.selector));
  if (options.selector.kind == Selector::Kind::kMaxSlowdown) {
    return Error::invalid(
        "the online optimizer uses the slowdown as its budget: choose energy, time or "
        "cost");
  }
  if (knob.kind() == KnobKind::kGraphicsClock && options.selector.kind == Selector::Kind::kCost &&
      options.selector.max_power.value <= 0) {
    return Error::invalid("the cost of clocks needs the GPU's highest power limit (max_power)");
  }
  const bool budget = std::isfinite(options.slowdown) && options.slowdown >= 0 &&
                      std::isfinite(options.worst_slowdown) && options.worst_slowdown >= 1;
  if (!budget || options.reference_steps < 2 || options.settle_steps < 0 ||
      options.block_steps < 1) {
    return Error::invalid(
        "expected a slowdown of at least 0, a worst slowdown of at least 1, and at least 2 steps "
        "of reference, 0 to settle and 1 per block");
  }
  return OnlineOptimizer(std::move(knob), options);
}

std::size_t OnlineOptimizer::next(std::optional<Measurement> last) {
  if (!knob_.can_choose()) return 0;
  if (last) account(last->time, last->energy);
  if (reference_.value <= 0) return current_;
  if (left_in_block_ <= 0) begin_block();
  if (budget_holds(current_ == wanted_ ? 1 : kReserveToLeave)) {
    switch_to(wanted_);
  } else {
    // Ends a block in progress: its measurements may favour another setting.
    if (current_ == wanted_) left_in_block_ = 0;
    switch_to(0);
  }
  return current_;
}

void OnlineOptimizer::account(Seconds time, Joules energy) {
  const bool known = std::isfinite(time.value) && time.value >= 0;
  if (reference_.value <= 0) {
    if (known && time.value > 0) {
      reference_times_.push_back(time.value);
      learn(time, energy);
    }
    if (static_cast<int>(reference_times_.size()) == options_.reference_steps) {
      reference_ = {mean_with_error(reference_times_).mean};
      drift_.emplace(reference_);
      reference_times_.clear();
    }
    return;
  }
  ++steps_;
  allowance_ += reference_ * options_.slowdown;
  if (current_ == wanted_) --left_in_block_;
  if (current_ != 0) {
    excess_ += (known ? time : reference_ * options_.worst_slowdown) - reference_;
    excess_ = std::max(excess_, Seconds{0});
  }
  if (!known) return;
  learn(time, energy);
  if (current_ == 0 && drift_->add(time)) {
    // Measures the reference again; the time owed remains.
    reference_ = {};
    drift_.reset();
    arms_.assign(knob_.size(), {});
    wanted_ = best_ = 0;
    left_in_block_ = 0;
  }
}

void OnlineOptimizer::learn(Seconds time, Joules energy) {
  if (settling_ > 0) {
    --settling_;
    return;
  }
  if (!std::isfinite(energy.value) || energy.value < 0) return;
  Arm& arm = arms_[current_];
  const double score = weights_.of(time, energy);
  arm.steps += 1;
  arm.score += score;
  arm.squares += score * score;
  arm.seconds += time.value;
  arm.joules += energy.value;
}

void OnlineOptimizer::begin_block() {
  wanted_ = pick();
  Arm& arm = arms_[wanted_];
  const int doublings = std::min(arm.blocks++, kMostDoublings);
  left_in_block_ = options_.block_steps * (1 << doublings);
}

std::size_t OnlineOptimizer::pick() {
  // A setting that the budget cannot sustain is no candidate: the budget would return to the
  // highest setting again and again.
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].steps <= 0 || !is_sustainable(i)) continue;
    const bool better =
        arms_[best_].steps <= 0 || !is_sustainable(best_) || arms_[i].mean() < arms_[best_].mean();
    if (better) best_ = i;
  }
  if (const std::optional<std::size_t> one = untried()) return *one;
  std::size_t played = best_;
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    const bool candidate = arms_[i].steps > 0 && is_sustainable(i);
    if (candidate && bound(arms_[i]) < bound(arms_[played])) played = i;
  }
  return played;
}

std::optional<std::size_t> OnlineOptimizer::untried() const {
  if (arms_[0].steps <= 0 || options_.slowdown <= 0) return std::nullopt;
  std::vector<std::optional<Measurement>> measured(arms_.size());
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    const Arm& arm = arms_[i];
    if (arm.joules <= 0 || arm.seconds <= 0) continue;
    measured[i] = {knob_[i], {arm.seconds / arm.steps}, {arm.joules / arm.steps}};
  }
  if (!measured[0]) return std::nullopt;
  const auto forecast =
      SettingModel(knob_, *measured[0], options_.selector.gpus).forecast(measured);
  std::optional<std::size_t> found;
  double most = kLeastGain;
  for (std::size_t i = 1; i < arms_.size(); ++i) {
    if (arms_[i].blocks > 0) continue;
    const double gain =
        score_of(forecast[i], *measured[0], weights_).improvement_on(std::log(arms_[best_].mean()));
    const double slack = std::log1p(options_.slowdown) - forecast[i].log_time;
    const double carried = std::erfc(-slack / std::sqrt(2 * forecast[i].time_variance)) / 2;
    if (gain * carried > most) {
      most = gain * carried;
      found = i;
    }
  }
  return found;
}

double OnlineOptimizer::bound(const Arm& arm) const {
  const double mean = arm.mean();
  const double variance =
      std::max(arm.squares / arm.steps - mean * mean, square(kLeastDeviation * mean));
  return mean - std::sqrt(2 * variance * std::log(steps_ + 1) / arm.steps);
}

bool OnlineOptimizer::budget_holds(double steps_of_reserve) const {
  if (wanted_ == 0) return true;
  const Seconds risk = reference_ * (options_.worst_slowdown - 1) * steps_of_reserve;
  return excess_ + risk <= allowance_ + reference_ * options_.slowdown;
}

bool OnlineOptimizer::is_sustainable(std::size_t setting) const {
  const Arm& arm = arms_[setting];
  if (setting == 0 || arm.steps <= 0) return true;
  return arm.seconds / arm.steps <= reference_.value * (1 + options_.slowdown);
}

void OnlineOptimizer::switch_to(std::size_t setting) {
  if (setting == current_) return;
  current_ = setting;
  settling_ = options_.settle_steps;
  ++switches_;
}

}  // namespace harpe::zeus
