#include "harpe/zeus/power_limit/setting_profiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::zeus {
namespace {

// Steps per setting in Zeus, by which the budget is counted.
constexpr int kZeusStepsASetting = 50;
// A setting that was not measured is chosen only if its forecast is this much better than the best
// measured one: interpolation errs by a few percent. Chosen together with the model's constants.
constexpr double kUnmeasuredMargin = 0.05;
// Remaining windows of a job when its settings are tried, if other batch sizes are known: a job of
// some tens of thousands of steps.
constexpr double kWindowsToCome = 1000;
// Most windows treated as warm-up: a job whose steps vary never ends its warm-up.
constexpr int kMostWarmUps = 4;
// A setting is tried for a maximum slowdown unless it surely exceeds it.
constexpr double kSurelyTooSlow = 2.0;  // standard deviations
// From the half-width of a 95 % interval to the one-sided bound with the same probability.
constexpr double kOneSided = 1.644854 / 1.959964;

/// Returns the share of a normal distribution below this number of standard deviations.
double normal_share(double deviations) {
  return 0.5 * std::erfc(-deviations / std::sqrt(2.0));
}

}  // namespace

SettingProfiler::SettingProfiler(Knob knob, ProfilerOptions options)
    : knob_(std::move(knob)),
      options_(std::move(options)),
      measured_(knob_.size()),
      time_error_(knob_.size()) {
  const double share = options_.step_share * kZeusStepsASetting * static_cast<double>(knob_.size());
  budget_ =
      std::max(static_cast<int>(std::min(share, 1e9)), options_.warmup_steps + options_.max_steps);
}

Result<SettingProfiler> SettingProfiler::make(Knob knob, ProfilerOptions options) {
  HARPE_TRY(check(options.selector));
  if (knob.kind() == KnobKind::kGraphicsClock && options.selector.kind == Selector::Kind::kCost &&
      options.selector.max_power.value <= 0) {
    return Error::invalid("the cost of clocks needs the GPU's highest power limit (max_power)");
  }
  constexpr int kMostSteps = 1'000'000;
  const bool steps = options.warmup_steps >= 0 && options.warmup_steps <= kMostSteps &&
                     options.min_steps >= 1 && options.max_steps >= options.min_steps &&
                     options.max_steps <= kMostSteps;
  if (!steps || !(options.min_time.value >= 0) || !(options.precision > 0) ||
      !(options.step_share > 0) || !(options.least_gain >= 0)) {
    return Error::invalid(
        "expected 0 <= warm-up steps, 1 <= least <= most steps of a window, a precision and a "
        "share of steps above 0, a least time and a least gain of at least 0");
  }
  return SettingProfiler(std::move(knob), std::move(options));
}

KnobActions SettingProfiler::start() {
  KnobActions actions;
  if (knob_.size() == 0) {
    state_ = State::kDone;
  } else {
    begin(0, actions);
  }
  return actions;
}

KnobActions SettingProfiler::on_step_begin(Seconds now) {
  KnobActions actions;
  if (done()) return actions;
  if (state_ == State::kMeasuring && window_is_open_) {
    end_step(now);
    if (window_is_decided()) {
      window_is_open_ = false;
      window_is_complete_ = true;
      step_is_beginning_ = true;
      actions.push_back({KnobAction::Kind::kCloseWindow});
      return actions;
    }
  }
  ++steps_;
  if (state_ == State::kWarmup && state_steps_++ == options_.warmup_steps) {
    state_ = State::kMeasuring;
  }
  if (state_ == State::kMeasuring && !window_is_open_) {
    actions.push_back({KnobAction::Kind::kOpenWindow});
    window_is_open_ = true;
  }
  step_began_ = now;
  return actions;
}

KnobActions SettingProfiler::on_epoch_end(Seconds now) {
  KnobActions actions;
  if (!window_is_open_) return actions;
  end_step(now);
  window_is_open_ = false;
  window_is_complete_ = window_is_decided();
  actions.push_back({KnobAction::Kind::kCloseWindow});
  return actions;
}

KnobActions SettingProfiler::on_window(Seconds time, Joules energy) {
  KnobActions actions;
  if (done()) return actions;
  time_ += time;
  energy_ += energy;
  if (!std::exchange(window_is_complete_, false)) return actions;
  const auto count = static_cast<double>(step_times_.size());
  const Measurement one{knob_[current_], time_ / count, energy_ / count};
  const bool sound = !still_warms_up() && std::isfinite(one.time.value) && one.time.value > 0 &&
                     std::isfinite(one.energy.value) && one.energy.value > 0;
  if (sound) {
    measured_[current_] = one;
    const MeanWithError step = mean_with_error(step_times_);
    const double scatter = step_times_.size() < 2 ? 0 : step.error / step.mean;
    time_error_[current_] = options_.time_error.value_or(scatter);
    order_.push_back(current_);
  }
  const std::optional<std::size_t> next = sound ? next_setting() : current_;
  if (next && steps_ + options_.warmup_steps + options_.min_steps <= budget_) {
    begin(*next, actions);
  } else {
    finish(actions);
  }
  if (done() || !std::exchange(step_is_beginning_, false)) return actions;
  // The step at whose beginning a window closes is the next setting's first.
  ++steps_;
  if (state_steps_++ == options_.warmup_steps) {
    state_ = State::kMeasuring;
    window_is_open_ = true;
    actions.push_back({KnobAction::Kind::kOpenWindow});
  }
  return actions;
}

/// Returns true if the two halves of the highest setting's window differ.
bool SettingProfiler::still_warms_up() {
  if (!options_.cautious || options_.time_error || current_ != 0 || step_times_.size() < 4) {
    return false;
  }
  const std::size_t half = step_times_.size() / 2;
  const std::span<const double> steps(step_times_);
  const MeanWithError first = mean_with_error(steps.first(half));
  const MeanWithError second = mean_with_error(steps.subspan(half));
  const double apart = std::abs(first.mean - second.mean);
  const bool differ =
      apart > std::hypot(first.error, second.error) && apart > options_.precision * second.mean;
  return differ && warm_ups_++ < kMostWarmUps;
}

void SettingProfiler::begin(std::size_t setting, KnobActions& actions) {
  current_ = setting;
  set(setting, actions);
  state_ = State::kWarmup;
  state_steps_ = 0;
  step_times_.clear();
  time_ = {};
  energy_ = {};
  window_limit_ = std::min(options_.max_steps, budget_ - steps_ - options_.warmup_steps);
}

void SettingProfiler::set(std::size_t setting, KnobActions& actions) {
  if (set_ == setting) return;
  set_ = setting;
  actions.push_back({KnobAction::Kind::kSet, setting});
}

void SettingProfiler::end_step(Seconds now) {
  step_times_.push_back((now - step_began_).value);
}

bool SettingProfiler::window_is_decided() const {
  const int count = static_cast<int>(step_times_.size());
  if (count < options_.min_steps) return false;
  if (count >= window_limit_) return true;
  const MeanWithError step = mean_with_error(step_times_);
  if (step.mean * count < options_.min_time.value) return false;
  return step.error <= options_.precision * step.mean;
}

void SettingProfiler::finish(KnobActions& actions) {
  state_ = State::kDone;
  if (order_.empty()) return;
  choice_ = best_setting();
  set(*choice_, actions);
}

std::optional<std::size_t> SettingProfiler::next_setting() const {
  const Selector& selector = options_.selector;
  if (selector.kind == Selector::Kind::kMaxSlowdown) return next_for_slowdown();
  const Measurement& highest = *measured_[0];
  const ScoreWeights weights = weights_of(selector, knob_[0]);
  const bool is_free = !selector.most_slowdown && knob_.kind() == KnobKind::kPowerLimit;
  if (is_free && !options_.others.empty()) return next_by_others(weights);
  const auto forecast = SettingModel(knob_, highest, selector.gpus).forecast(measured_);
  const Measurement& kept = *measured_[best_measured()];
  const double best = weights.of(kept.time, kept.energy);
  std::optional<std::size_t> next;
  double most = options_.least_gain;
  for (std::size_t i = 0; i < knob_.size(); ++i) {
    if (measured_[i]) continue;
    const double gain = score_of(forecast[i], highest, weights).improvement_on(std::log(best)) *
                        chance_to_keep(i, forecast[i]);
    if (gain > most) {
      most = gain;
      next = i;
    }
  }
  return next;
}

std::optional<std::size_t> SettingProfiler::next_by_others(const ScoreWeights& weights) const {
  SizeProfile own{.batch_size = options_.batch_size};
  for (const std::size_t setting : order_) own.measured.push_back(*measured_[setting]);
  return next_limit(knob_, own, options_.others,
                    {.weights = weights, .gpus = options_.selector.gpus, .epochs = kWindowsToCome});
}

std::optional<std::size_t> SettingProfiler::next_for_slowdown() const {
  const double allowed = std::log(options_.selector.slowdown);
  const auto forecast =
      SettingModel(knob_, *measured_[0], options_.selector.gpus).forecast(measured_);
  const std::size_t kept = best_measured();
  // The lowest setting that probably keeps the bound; else the one below the lowest that keeps it.
  for (std::size_t i = knob_.size(); i-- > kept + 1;) {
    if (!measured_[i] && forecast[i].log_time <= allowed) return i;
  }
  const std::size_t next = kept + 1;
  if (next >= knob_.size() || measured_[next]) return std::nullopt;
  const double excess = forecast[next].log_time - allowed;
  if (excess > kSurelyTooSlow * std::sqrt(forecast[next].time_variance)) return std::nullopt;
  return next;
}

/// Returns the probability that a setting is within the selector's bound. As settings descend, time
/// rises at an increasing rate. So between two measured settings, time is at most the chord's.
/// Below the lowest measured setting, time is the forecast's, but at least that of the line from
/// the highest setting.
double SettingProfiler::chance_to_keep(std::size_t setting, const SettingForecast& forecast) const {
  if (!options_.selector.most_slowdown) return 1;
  const double allowed = std::log(*options_.selector.most_slowdown) - margin(0);
  const double noise = options_.precision / 2;  // standard deviation of a window's time
  const auto log_time_at = [this](std::size_t i) {
    return std::log(measured_[i]->time / measured_[0]->time);
  };
  std::size_t above = setting, below = setting;
  while (!measured_[above]) --above;  // the highest was measured
  while (below + 1 < measured_.size() && !measured_[below]) ++below;
  const double log_above = log_time_at(above);
  if (measured_[below]) {
    const double rise = log_time_at(below) - log_above;
    const double share = (knob_[above] - knob_[setting]) / (knob_[above] - knob_[below]);
    const double deviation = std::hypot(rise * share * (1 - share), noise);
    return normal_share((allowed - log_above - rise * share) / deviation);
  }
  const double chance =
      normal_share((allowed - forecast.log_time) / std::sqrt(forecast.time_variance));
  if (above == 0) return chance;
  const double farther = (knob_[above] - knob_[setting]) / (knob_[0] - knob_[above]);
  const double least = log_above * (1 + farther);
  return std::min(chance, normal_share((allowed - least) / (noise * (1 + farther))));
}

/// Returns the relative amount by which the ratio of a setting's time to the highest setting's may
/// exceed the measured ratio. A setting without a measurement is assumed to have a window as good
/// as the highest setting's.
double SettingProfiler::margin(std::size_t setting) const {
  if (!options_.cautious) return 0;
  const double own = setting == 0 || !measured_[setting] ? time_error_[0] : time_error_[setting];
  return kOneSided * std::hypot(own, time_error_[0]);
}

std::optional<std::size_t> SettingProfiler::best_so_far() const {
  if (order_.empty()) return std::nullopt;
  return best_measured();
}

std::size_t SettingProfiler::best_measured() const {
  std::vector<Measurement> seen;
  std::vector<std::size_t> position;
  const auto& bound = options_.selector.most_slowdown;
  for (std::size_t i = 0; i < measured_.size(); ++i) {
    if (!measured_[i]) continue;
    const bool may_break = options_.cautious && bound && i > 0 && measured_[0] &&
                           measured_[i]->time * (1 + margin(i)) > measured_[0]->time * *bound;
    if (may_break) continue;
    seen.push_back(*measured_[i]);
    position.push_back(i);
  }
  // Cannot fail: only sound measurements were kept, and the selector was checked.
  return position[choose(seen, options_.selector).value()];
}

std::size_t SettingProfiler::best_setting() const {
  std::size_t best = best_measured();
  const bool promises =
      options_.selector.kind == Selector::Kind::kMaxSlowdown || options_.selector.most_slowdown;
  if (promises || !measured_[0]) return best;
  const ScoreWeights weights = weights_of(options_.selector, knob_[0]);
  double least =
      std::log(weights.of(measured_[best]->time, measured_[best]->energy)) - kUnmeasuredMargin;
  const auto forecast =
      SettingModel(knob_, *measured_[0], options_.selector.gpus).forecast(measured_);
  for (std::size_t i = 0; i < knob_.size(); ++i) {
    if (measured_[i]) continue;
    const double score = score_of(forecast[i], *measured_[0], weights).log_score;
    if (score < least) {
      least = score;
      best = i;
    }
  }
  return best;
}

}  // namespace harpe::zeus
