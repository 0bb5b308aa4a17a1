#pragma once
/// \file
/// The power limit optimizer of Zeus (You et al., NSDI 2023, section 4.1) as a state machine: every
/// limit from the highest to the lowest is warmed up and measured for a number of steps, then the
/// selector chooses. The end of an epoch cancels the window, and the limit is measured again from
/// its warm-up.
///
/// If epochs are too short to ever finish a limit in this way, Zeus itself repeats one limit for
/// ever. Here, when an epoch has begun and ended under one limit without finishing it, windows from
/// then on continue over the ends of epochs, and the limit stays in force.
///
///   auto optimizer = ZeusOptimizer::make(knob, {});
///   carry_out(optimizer->start());
///   for each step: carry_out(optimizer->on_step_begin());
///
/// A set action is returned only if the setting changes. Pure; not thread-safe; O(1) per event
/// except for the final choice. The caller must restore the settings that were in force before.

#include <optional>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::lab {

struct ZeusOptions {
  zeus::Selector selector{};
  int wait_steps = 1;      ///< before the first limit, at least 0
  int warmup_steps = 10;   ///< at least 0
  int profile_steps = 40;  ///< at least 1
};

class ZeusOptimizer {
 public:
  /// Fails if the selector is wrong or a number of steps is below its minimum.
  static Result<ZeusOptimizer> make(zeus::Knob knob, ZeusOptions options);

  /// Sets the highest limit. Called before the first step.
  zeus::KnobActions start();
  zeus::KnobActions on_step_begin();
  zeus::KnobActions on_epoch_end();
  /// Receives time and energy of the window that was just closed. A limit whose figures are not
  /// numbers above 0 is measured again.
  zeus::KnobActions on_window(Seconds time, Joules energy);

  bool done() const { return state_ == State::kDone; }
  /// Returns the choice once done; nullopt if the knob has no setting.
  std::optional<std::size_t> choice() const { return choice_; }
  const std::vector<zeus::Measurement>& measurements() const { return measurements_; }
  const zeus::Knob& knob() const { return knob_; }

 private:
  enum class State : unsigned char { kReady, kWarmup, kProfiling, kDone };

  ZeusOptimizer(zeus::Knob knob, ZeusOptions options) : knob_(std::move(knob)), options_(options) {}

  void set(std::size_t setting, zeus::KnobActions& actions);
  void begin_limit(zeus::KnobActions& actions);
  void finish(zeus::KnobActions& actions);

  zeus::Knob knob_;
  ZeusOptions options_;
  State state_ = State::kReady;
  std::size_t current_ = 0;  ///< limit that is measured now or next
  int steps_ = 0;            ///< until the state ends
  std::optional<std::size_t> set_;
  bool began_epoch_with_current_ = false;  ///< true if no limit was finished since the epoch began
  bool keeps_windows_ = false;             ///< true if windows continue over the ends of epochs
  bool window_is_open_ = false, window_is_complete_ = false;
  Seconds time_{};
  Joules energy_{};
  std::vector<zeus::Measurement> measurements_;
  std::optional<std::size_t> choice_;
};

}  // namespace harpe::lab
