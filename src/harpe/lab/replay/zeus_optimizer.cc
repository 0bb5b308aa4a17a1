#include "harpe/lab/replay/zeus_optimizer.h"

#include <cmath>
#include <utility>

namespace harpe::lab {

Result<ZeusOptimizer> ZeusOptimizer::make(zeus::Knob knob, ZeusOptions options) {
  HARPE_TRY(check(options.selector));
  if (options.wait_steps < 0 || options.warmup_steps < 0 || options.profile_steps < 1) {
    return Error::invalid("expected at least 0 steps to wait, 0 to warm up and 1 to profile, got " +
                          std::to_string(options.wait_steps) + ", " +
                          std::to_string(options.warmup_steps) + " and " +
                          std::to_string(options.profile_steps));
  }
  return ZeusOptimizer(std::move(knob), options);
}

zeus::KnobActions ZeusOptimizer::start() {
  zeus::KnobActions actions;
  if (knob_.size() == 0) {
    state_ = State::kDone;
    return actions;
  }
  set(0, actions);
  state_ = State::kReady;
  steps_ = options_.wait_steps + 1;
  return actions;
}

zeus::KnobActions ZeusOptimizer::on_step_begin() {
  zeus::KnobActions actions;
  if (done()) return actions;
  if (state_ == State::kProfiling && !window_is_open_) {
    actions.push_back({zeus::KnobAction::Kind::kOpenWindow});
    window_is_open_ = true;
    return actions;
  }
  if (--steps_ > 0) return actions;
  if (state_ == State::kReady) {
    begin_limit(actions);
  } else if (state_ == State::kWarmup) {
    actions.push_back({zeus::KnobAction::Kind::kOpenWindow});
    window_is_open_ = true;
    state_ = State::kProfiling;
    steps_ = options_.profile_steps;
  } else {
    actions.push_back({zeus::KnobAction::Kind::kCloseWindow});
    window_is_open_ = false;
    window_is_complete_ = true;
  }
  return actions;
}

zeus::KnobActions ZeusOptimizer::on_epoch_end() {
  zeus::KnobActions actions;
  if (state_ != State::kWarmup && state_ != State::kProfiling) return actions;
  keeps_windows_ = keeps_windows_ || began_epoch_with_current_;
  if (keeps_windows_) {
    if (window_is_open_) {
      // The step that ends here counts now; the beginning of the next step only reopens the window.
      actions.push_back({zeus::KnobAction::Kind::kCloseWindow});
      window_is_open_ = false;
      window_is_complete_ = --steps_ == 0;
    }
    return actions;
  }
  if (window_is_open_) actions.push_back({zeus::KnobAction::Kind::kCancelWindow});
  window_is_open_ = false;
  time_ = {};
  energy_ = {};
  set(0, actions);
  state_ = State::kReady;
  steps_ = 1;
  began_epoch_with_current_ = true;
  return actions;
}

zeus::KnobActions ZeusOptimizer::on_window(Seconds time, Joules energy) {
  zeus::KnobActions actions;
  if (done()) return actions;
  time_ += time;
  energy_ += energy;
  if (!std::exchange(window_is_complete_, false)) return actions;
  const zeus::Measurement measured{.setting = knob_[current_],
                                   .time = std::exchange(time_, {}),
                                   .energy = std::exchange(energy_, {})};
  const bool sound = std::isfinite(measured.time.value) && measured.time.value > 0 &&
                     std::isfinite(measured.energy.value) && measured.energy.value > 0;
  if (sound) {
    measurements_.push_back(measured);
    ++current_;
    began_epoch_with_current_ = false;
  }
  if (current_ == knob_.size()) {
    finish(actions);
  } else {
    begin_limit(actions);
  }
  return actions;
}

void ZeusOptimizer::set(std::size_t setting, zeus::KnobActions& actions) {
  if (set_ == setting) return;
  set_ = setting;
  actions.push_back({zeus::KnobAction::Kind::kSet, setting});
}

void ZeusOptimizer::begin_limit(zeus::KnobActions& actions) {
  set(current_, actions);
  state_ = State::kWarmup;
  steps_ = options_.warmup_steps;
  if (steps_ > 0) return;
  actions.push_back({zeus::KnobAction::Kind::kOpenWindow});
  window_is_open_ = true;
  state_ = State::kProfiling;
  steps_ = options_.profile_steps;
}

void ZeusOptimizer::finish(zeus::KnobActions& actions) {
  state_ = State::kDone;
  // Only sound measurements were kept, and the selector was checked.
  choice_ = choose(measurements_, options_.selector).value();
  set(*choice_, actions);
}

}  // namespace harpe::lab
