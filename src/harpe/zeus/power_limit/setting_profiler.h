#pragma once
/// \file
/// Harpe's profiler of the settings of one job: it measures few settings instead of all, in short
/// windows instead of equal ones, and discards no window.
///
/// The highest setting is measured first. Then, repeatedly, the setting whose score the model
/// (setting_model.h) expects to improve most on the best so far, until no setting promises an
/// improvement of `least_gain`, or the remaining budget of steps is too small for another window. A
/// window ends as soon as the 95 % interval of the mean step is narrower than `precision` and the
/// window is long enough for energy counters. At the end of an epoch it pauses, continues later,
/// and the setting stays in force, so an epoch may be shorter than a window, or even than a
/// warm-up.
///
/// For a maximum slowdown, the lowest setting that probably keeps it is measured next. If another
/// selector bounds the slowdown, the expected improvement of a setting is weighted by the
/// probability that it keeps the bound (Gardner et al., ICML 2014). Both choose only measured
/// settings, so that a promised slowdown never rests on a forecast.
///
/// The number of steps, warm-up included, is at most `step_share` of the steps that Zeus takes for
/// the same settings (10 + 40 steps each), or one window if that is more. The caller must carry out
/// the actions that each function returns, and pass in the time of each event, on any steady clock.
/// Pure; not thread-safe.

#include <optional>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/limit_plan.h"
#include "harpe/zeus/power_limit/selector.h"
#include "harpe/zeus/power_limit/setting_model.h"

namespace harpe::zeus {

struct ProfilerOptions {
  Selector selector{};
  int warmup_steps = 10;    ///< at least 0
  int min_steps = 10;       ///< of a window, at least 1
  int max_steps = 40;       ///< of a window, at least min_steps
  Seconds min_time{2};      ///< of a window with fewer than max_steps, for counters that lag 0.1 s
  double precision = 0.01;  ///< half-width of the interval over the mean, above 0
  double step_share = 0.5;  ///< above 0
  double least_gain = 0.0003;  ///< expected improvement of the score, a fraction, at least 0
  /// True: chooses only settings that keep the selector's `most_slowdown` with a probability of 95
  /// %, given the error of their windows. False: by the means of the windows alone, as Zeus does.
  bool cautious = false;
  /// That error, as a relative half-width of a 95 % interval; nullopt: each window's own, by the
  /// scatter of its steps. The processes of a job must choose alike but have different scatter, so
  /// they set it.
  std::optional<double> time_error{};
  /// Measurements of the same job with other batch sizes. For power limits without a bounded
  /// slowdown, they decide which settings are worth measuring (limit_plan.h).
  std::vector<SizeProfile> others{};
  int batch_size = 0;
};

class SettingProfiler {
 public:
  static Result<SettingProfiler> make(Knob knob, ProfilerOptions options);

  KnobActions start();
  KnobActions on_step_begin(Seconds now);
  KnobActions on_epoch_end(Seconds now);
  /// Receives time and energy of the window that was just closed; of each part, if it was paused. A
  /// setting whose figures are not numbers above 0 is measured again.
  KnobActions on_window(Seconds time, Joules energy);

  bool done() const { return state_ == State::kDone; }
  std::optional<std::size_t> choice() const { return choice_; }
  /// Returns the best of the settings measured so far; nullopt before the first.
  std::optional<std::size_t> best_so_far() const;
  /// Returns time (s) and energy (J) of a step for each setting; nullopt if it was not measured.
  const std::vector<std::optional<Measurement>>& measured() const { return measured_; }
  /// Returns the positions of the settings in the order they were measured.
  const std::vector<std::size_t>& order() const { return order_; }
  int steps() const { return steps_; }  ///< begun before it was done
  const Knob& knob() const { return knob_; }

 private:
  enum class State : unsigned char { kWarmup, kMeasuring, kDone };

  SettingProfiler(Knob knob, ProfilerOptions options);

  void begin(std::size_t setting, KnobActions& actions);
  void set(std::size_t setting, KnobActions& actions);
  void end_step(Seconds now);
  bool window_is_decided() const;
  bool still_warms_up();
  void finish(KnobActions& actions);
  std::optional<std::size_t> next_setting() const;
  std::optional<std::size_t> next_for_slowdown() const;
  std::optional<std::size_t> next_by_others(const ScoreWeights& weights) const;
  double chance_to_keep(std::size_t setting, const SettingForecast& forecast) const;
  double margin(std::size_t setting) const;
  std::size_t best_measured() const;
  std::size_t best_setting() const;

  Knob knob_;
  ProfilerOptions options_;
  int budget_ = 0;  ///< steps
  State state_ = State::kWarmup;
  int steps_ = 0, state_steps_ = 0;
  std::size_t current_ = 0;
  std::optional<std::size_t> set_;
  int window_limit_ = 0;  ///< most steps of this window
  bool window_is_open_ = false, window_is_complete_ = false;
  /// A window was closed at the start of a step, not at the end of an epoch.
  bool step_is_beginning_ = false;
  Seconds step_began_{};
  std::vector<double> step_times_;
  Seconds time_{};
  Joules energy_{};
  std::vector<std::optional<Measurement>> measured_;
  int warm_ups_ = 0;                ///< windows of the highest setting that were measured again
  std::vector<double> time_error_;  ///< of `measured_`: relative half-widths of 95 % intervals
  std::vector<std::size_t> order_;
  std::optional<std::size_t> choice_;
};

}  // namespace harpe::zeus
