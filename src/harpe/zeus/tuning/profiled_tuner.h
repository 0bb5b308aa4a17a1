#pragma once
/// \file
/// The tuner that profiles and then keeps what it chose (tuner.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/zeus/power_limit/drift.h"
#include "harpe/zeus/tuning/job_agreement.h"
#include "harpe/zeus/tuning/saving_account.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe {

/// Decides when a run returns to its highest setting for some steps, to compare the chosen setting
/// with it (saving_account.h), and for how long. Not thread-safe.
///
/// The first look is due after 80 steps (40 if an earlier run's profile chose the setting), the
/// next after 8 times as many steps as a look takes. After each look that agrees with the one
/// before the time doubles, until looks take 1 % of the steps; a look that disagrees resets it to 8
/// times. Each time is varied from 0.7 to 1.3 times, by a sequence without a period, so that looks
/// meet all phases of a job whose steps are periodic.
///
/// If the slowdown is bounded, a run whose time exceeds the bound also returns to the highest
/// setting, until it is within the bound again: the bound holds over the whole run, trials
/// included.
class Looks {
 public:
  /// Called when a setting was chosen.
  void begin(bool by_earlier_run);
  /// Called when a step has ended.
  void step() { ++steps_; }
  /// Steps since the last change of the setting.
  std::int64_t steps() const { return steps_; }
  /// Called when steps may have changed: the next look is due within some tens of steps.
  void want();
  bool is_due() const { return !under_way_ && (owes_ || steps_ >= due_); }

  void start();
  bool under_way() const { return under_way_; }
  /// Called when steps of the look were measured.
  void add(std::int64_t measured) { measured_ += measured; }
  /// True if the look has enough measured steps and no time is owed. A look whose steps cannot be
  /// measured is complete after 400 steps.
  bool is_complete() const;
  /// \param has_moved  the look disagrees with the one before
  void end(bool has_moved);

  /// \param most_slowdown  time over that at the highest setting, at least 1
  void owe(const SavingAccount::Delay& delay, double most_slowdown);
  bool owes() const { return owes_; }

 private:
  double next_phase();
  void wait(std::int64_t steps);

  bool under_way_ = false, owes_ = false;
  std::int64_t steps_ = 0, interval_ = 0, due_ = 0, measured_ = 0;
  double phase_ = 0;  ///< 0 to 1
};

class ProfiledTuner final : public Tuner {
 public:
  ProfiledTuner(TunerOptions options, ProfilerOptions profiling, SettingProfiler profiler,
                KnobSetter& setter, WindowMeter& meter, Peers* peers);

  void start() override;
  void on(const StepEvent& event) override;
  void poll(Instant now) override;
  void finish() override;
  bool waits() const override { return closed_.has_value(); }
  bool profiles() const override { return failure_.empty() && !choice_; }
  void end_trials(const std::string& why, bool are_steps_timed) override;
  void fail(const Error& error) override;
  TuningResult result() const override;

 private:
  /// Steps under one setting between two instants.
  struct Window {
    Instant begin{}, end{};
    std::vector<double> step_times{};
    bool is_of_profiler = false;
  };

  /// The setting that an earlier run's measurements choose.
  struct Known {
    std::vector<Measurement> measurements{};
    std::vector<std::size_t> positions{};  ///< of them, in the knob
    std::size_t choice = 0;                ///< of them
  };

  std::optional<Known> known() const;
  bool all_know_the_same(const std::optional<Known>& known);
  void begin_profiling();
  void settle(std::size_t setting, std::optional<Seconds> expected);
  void on_settled_step(const StepEvent& event, std::optional<Seconds> took);
  void on_look_step(const StepEvent& event);
  void end_look();
  void judge();
  bool surely_keeps_bound() const;
  void measure_untimed(Instant before, Instant now);
  void stop_profiling();
  std::size_t higher_setting() const;
  bool may_profile() const;
  bool is_silent(Instant now) const;
  bool decides(const StepEvent& event, bool wants_look);
  void leave_setting();
  void meet();
  void carry_out(const KnobActions& actions, Instant at);
  void set(std::size_t setting);
  void open(Instant at, bool is_of_profiler);
  void close(Instant at);
  void cancel();
  void take(const Window& window);
  void lose(const Error& error);
  Watts own_host_power() const;
  void expect(Seconds step);
  void watch(Seconds step);
  bool window_is_full(const Window& window, Instant now) const;
  bool is_pause(Seconds step) const;

  TunerOptions options_;
  ProfilerOptions profiling_;
  SettingProfiler profiler_;
  KnobSetter& setter_;
  WindowMeter& meter_;
  JobAgreement job_;
  StepLedger ledger_;  ///< since the last profiling began
  SavingAccount account_;
  Looks looks_;
  std::size_t setting_ = 0;
  std::optional<std::size_t> choice_;
  bool from_profile_ = false, finished_ = false, has_drifted_ = false, is_too_slow_ = false;
  bool is_look_due_ = false;
  int profilings_ = 0;
  std::int64_t steps_ = 0, epochs_ = 0;
  std::int64_t settled_steps_ = 0;                                            ///< since the choice
  std::int64_t profiling_steps_ = 0;                                          ///< of all profilings
  std::int64_t until_meeting_ = 0, between_meetings_ = 0, most_between_ = 0;  ///< steps
  std::optional<Instant> step_began_;
  Instant last_event_{}, polled_{};
  RunningMedian usual_;
  double usual_step_ = 0;  ///< s
  std::optional<DriftDetector> drift_;
  std::optional<Window> open_, closed_;
  bool is_metering_ = false;
  std::string failure_;
  std::string lost_;     ///< why this process can go on no longer; the others may not know it yet
  std::string trouble_;  ///< of the meter: the last one
  std::optional<Saving> job_saving_;
  std::vector<std::string> trials_ended_;
  bool are_steps_timed_ = true, ended_epoch_ = false;
};

}  // namespace harpe
