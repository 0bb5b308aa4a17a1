#pragma once
/// \file
/// The tuner that profiles settings and then keeps the chosen one (tuner.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/zeus/power_limit/drift.h"
#include "harpe/zeus/tuning/job_agreement.h"
#include "harpe/zeus/tuning/saving_account.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

/// The schedule of looks: when a run returns to its highest setting for some steps, to compare the
/// chosen setting with it (saving_account.h), and for how long. Not thread-safe.
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

/// Counter of the steps of a run, which also measures their usual time and the time without events.
/// Not thread-safe.
class StepRhythm {
 public:
  /// Returns the duration of the step that the event ends; nullopt if no step was under way.
  std::optional<Seconds> add(const StepEvent& event);
  /// Sets the current time. Returns the time since the last call.
  Seconds poll(Instant now);
  /// Ends the time without events. Returns its length.
  Seconds end_silence();

  /// True if a step is so long that it is a pause, such as a validation or a checkpoint.
  bool is_pause(Seconds step) const { return step.value > kPause * usual_step_ && usual_step_ > 0; }
  /// True if the steps have ended without the end of an epoch.
  bool is_silent() const;
  /// Returns why a trial ends in silence.
  std::string silence_text() const;
  std::int64_t steps() const { return steps_; }
  std::int64_t epochs() const { return epochs_; }
  Seconds usual_step() const { return {usual_step_}; }
  Instant last_event() const { return last_event_; }
  Instant polled() const { return polled_.value_or(last_event_); }

 private:
  static constexpr double kPause = 5;  ///< times the usual step

  std::int64_t steps_ = 0, epochs_ = 0;
  std::optional<Instant> step_began_;  ///< nullopt after the end of an epoch
  Instant last_event_{};               ///< before the first event: the first poll
  std::optional<Instant> polled_;
  RunningMedian usual_;    // a median: pauses move it little
  double usual_step_ = 0;  ///< s
};

/// Steps under one setting between two instants.
struct StepWindow {
  Instant begin{};
  std::optional<Instant> end{};  ///< nullopt while the window is open
  std::vector<double> step_times{};
  bool is_of_profiler = false;
  MeteredWindow metered{};  ///< energy is NaN until read, and if it could not be read
};

/// At most one window of steps at a time, with its energy. A closed window is kept until its energy
/// is known. Not thread-safe.
class WindowRecorder {
 public:
  /// \param meter  must outlive this object
  explicit WindowRecorder(WindowMeter& meter) : meter_(meter) {}

  /// Opens a window. The window is open even if the meter fails.
  Status open(Instant at, bool is_of_profiler, bool is_metered);
  /// Returns the open window, or null.
  StepWindow* opened() { return window_ && !window_->end ? &*window_ : nullptr; }
  bool is_closed() const { return window_ && window_->end; }
  /// Closes the open window.
  void close(Instant at) { window_->end = at; }
  /// Waits until the energy of the closed window is known.
  void settle();
  /// True if there is a closed window whose energy is known.
  bool is_settled(Instant now) const;
  /// Removes the closed window. Returns it with its energy.
  StepWindow take();
  void cancel();
  void stop_metering();
  /// Returns the last error of the meter; empty if there was none.
  const std::string& trouble() const { return trouble_; }

 private:
  WindowMeter& meter_;
  std::optional<StepWindow> window_;
  bool is_metering_ = false;
  std::string trouble_;
};

/// The schedule of meetings of the processes of a job: after 16 steps, then after twice as many
/// each time, up to about 10 s between two meetings. All processes count the same steps. Not
/// thread-safe.
class Meetings {
 public:
  /// \param step  expected time of a step; nullopt: as before
  void begin(std::optional<Seconds> step);
  /// Called at each step. Returns true if the processes meet at this one.
  bool count_step();

 private:
  std::int64_t until_next_ = 0, between_ = 0, most_between_ = 0;  ///< steps
};

class ProfiledTuner final : public Tuner {
 public:
  ProfiledTuner(TunerOptions options, ProfilerOptions profiling, SettingProfiler profiler,
                KnobSetter& setter, WindowMeter& meter, Peers* peers);

  void start() override;
  void on(const StepEvent& event) override;
  void poll(Instant now) override;
  void finish() override;
  bool waits() const override { return window_.is_closed(); }
  bool profiles() const override { return failure_.empty() && !choice_; }
  void end_trials(const std::string& why, bool are_steps_timed) override;
  void fail(const Error& error) override;
  TuningResult result() const override;

 private:
  bool all_agree_on(std::span<const double> choice);
  void begin_profiling();
  void settle(std::size_t setting, std::optional<Seconds> expected);
  void on_settled_step(const StepEvent& event, std::optional<Seconds> took);
  void on_look_step(const StepEvent& event);
  void measure(Instant now);
  void judge();
  bool surely_keeps_bound() const;
  void measure_untimed(Seconds time, Instant now);
  void stop_profiling();
  bool agree(const StepEvent& event);
  bool tries() const { return !choice_ || looks_.under_way(); }
  void leave_setting();
  void carry_out(const KnobActions& actions, Instant at);
  void set(std::size_t setting);
  void open(Instant at, bool is_of_profiler);
  void close(Instant at);
  void take(const StepWindow& window);
  void lose(const Error& error);
  void watch(Seconds step);

  TunerOptions options_;
  ProfilerOptions profiling_;
  SettingProfiler profiler_;
  KnobSetter& setter_;
  JobAgreement job_;
  StepLedger ledger_;  ///< since the last profiling began
  SavingAccount account_;
  Looks looks_;
  std::size_t setting_ = 0;
  std::optional<std::size_t> choice_;
  bool from_profile_ = false, finished_ = false, has_drifted_ = false, is_too_slow_ = false;
  bool is_look_due_ = false;
  StepRhythm rhythm_;
  WindowRecorder window_;
  Meetings meetings_;
  struct Counts {
    int profilings = 0;                ///< begun
    std::int64_t profiling_steps = 0;  ///< of all profilings
    std::int64_t settled_steps = 0;    ///< since the choice
  } counts_;
  std::optional<DriftDetector> drift_;
  std::string failure_;
  std::optional<Saving> job_saving_;
  std::vector<std::string> trials_ended_;
  bool are_steps_timed_ = true;
};

}  // namespace harpe::zeus
