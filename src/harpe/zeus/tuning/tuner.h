#pragma once
/// \file
/// Tuner of one running job: it receives the job's steps, measures windows of them, and sets the
/// setting that an optimizer of power_limit chooses.
///
/// First a SettingProfiler tries settings. The energy of a window is known shortly after its end
/// (counters lag by 0.1 s). Until then the setting stays, and steps belong to no window. The chosen
/// setting is measured in windows for as long as it is in force. From time to time the run returns
/// to the highest setting for a look (profiled_tuner.h), and the saving is the difference between
/// the two (saving_account.h). A step that takes over 5 times the usual time is a pause and is not
/// measured. If the chosen setting breaks the selector's bound, the tuner replaces it by a higher
/// one. If the step time drifts for good, the job is profiled again, but not before it has run four
/// times as long as profiling took.
///
/// If steps stop during a trial, the trial ends at the best setting known: after a minute, and at
/// least 20 times the usual step, without a step or the end of an epoch.
///
/// A job of several processes that train in step has one tuner in each process, for its own GPUs
/// (Peers). They profile with windows of equal length, by the sum of their energies and the longest
/// of their times, and at the end of a window they wait until its energy is known. Later, about
/// every 10 s, they agree to profile again, to leave the setting, or to end because one process can
/// no longer set or measure anything. Steps and joules in a result are of this process, except for
/// `job_saving`.
///
/// Time and energy are passed in through interfaces: no threads, no clock. Not thread-safe.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/setting_profiler.h"
#include "harpe/zeus/tuning/saving_account.h"
#include "harpe/zeus/tuning/step_file.h"

namespace harpe::zeus {

enum class Reduction : unsigned char { kSum, kMax };

/// The processes of a job that train in step, each with its own GPUs. Their tuners communicate by
/// the job's own reductions, so that no other connection has to be set up.
///
/// After a reduction all processes have the same values. A tuner decides by these values alone, so
/// all tuners make the same decision at the same step. Every process must call `reduce` at the same
/// steps, in the same order and with equally many values, and on_step_begin and on_epoch_end
/// equally often.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Reduces the values over all processes, in place. Waits for the slowest process. A failure ends
  /// the tuning of this process for good.
  virtual Status reduce(Reduction how, std::span<double> values) = 0;
};

struct MeteredWindow {
  Joules energy{};  ///< all GPUs of the job
  Joules error{};   ///< half-width of the 95 % interval
};

/// Energy between two instants that have just passed, for one window at a time.
class WindowMeter {
 public:
  /// Longest wait for counters that are updated rarely; after it their current values are used.
  static constexpr Seconds kLongestSettling{1};

  virtual ~WindowMeter() = default;
  virtual Status begin(Instant at) = 0;
  /// Returns true if waiting longer would not improve the energy up to `at`.
  virtual bool settled(Instant at) const = 0;
  /// Waits until the energy up to `at` is settled, but no longer than `kLongestSettling`.
  virtual void settle(Instant at) = 0;
  virtual Result<MeteredWindow> end(Instant at) = 0;
  virtual void cancel() = 0;
};

/// A setter of settings on all GPUs of a job. The first setting of the knob is the one that was in
/// force before, so no setting is ever raised, and `set(0)` is allowed wherever any setting is.
class KnobSetter {
 public:
  virtual ~KnobSetter() = default;
  virtual const Knob& knob() const = 0;
  virtual Status set(std::size_t setting) = 0;
  /// Renews the lease of the settings in force. Must be called regularly, from any thread.
  virtual Status keep(Instant now) = 0;
  /// Restores all settings that were in force before.
  virtual Status restore() = 0;
};

/// The setter of GPUs whose settings cannot or must not be changed: they are measured as they are.
class NoSetter final : public KnobSetter {
 public:
  /// \param found  with one setting
  explicit NoSetter(Knob found) : found_(std::move(found)) {}
  const Knob& knob() const override { return found_; }
  Status set(std::size_t) override { return ok_status(); }
  Status keep(Instant) override { return ok_status(); }
  Status restore() override { return ok_status(); }

 private:
  Knob found_;
};

/// The mean cost of one step.
struct StepCost {
  std::int64_t steps = 0;  ///< measured; if 0, the other members mean nothing
  Seconds time{};
  Joules energy{}, error{};
};

/// The cost of a step under each setting: the mean over the steps that were measured. Errors are
/// half-widths of 95 % intervals, assumed independent.
class StepLedger {
 public:
  explicit StepLedger(std::size_t settings) : rows_(settings) {}

  /// Counts a step that began.
  void count(std::size_t setting) { ++rows_[setting].begun; }
  /// Adds consecutive steps that were measured together.
  void add(std::size_t setting, std::int64_t steps, Seconds time, Joules energy, Joules error);

  std::vector<StepCost> costs() const;
  std::vector<std::int64_t> begun() const;

 private:
  struct Row {
    std::int64_t begun = 0, measured = 0;
    double seconds = 0, joules = 0, variance = 0;  ///< sums
  };
  std::vector<Row> rows_;
};

struct TunerOptions {
  Selector selector{};
  /// Part of the selector's host power that this process accounts for; nullopt: all of it.
  std::optional<Watts> own_host_power{};
  /// Measurements of an earlier run of this job on such GPUs, highest setting first; may be empty.
  std::vector<Measurement> known{};
  /// Measurements of earlier runs with other batch sizes, for a job of one process.
  std::vector<SizeProfile> others{};
  int batch_size = 1;
};

struct TuningResult {
  Knob knob;
  std::int64_t steps = 0, epochs = 0;  ///< received
  /// The chosen setting. If `decided` is false: the best of the settings measured so far, which
  /// need not be in force. Nullopt if nothing was measured.
  std::optional<std::size_t> choice;
  bool decided = false;
  bool from_profile = false;  ///< true if an earlier run's measurements chose the setting
  int profilings = 0;         ///< begun
  /// Slowdown of a step at `choice` against the highest setting, a fraction, by the newest looks.
  std::optional<double> slowdown{};
  /// Why no more settings are tried; empty if they may be.
  std::vector<std::string> trials_ended{};
  std::vector<StepCost> costs;            ///< one per setting, since the last profiling began
  std::vector<std::int64_t> steps_under;  ///< steps begun under each setting, since then
  Saving saving;                          ///< of the whole run, against the highest setting
  std::vector<Measurement> measurements;  ///< of the last profiling, of all processes
  /// Saving of all processes, as of their last exchange.
  std::optional<Saving> job_saving;
  std::string failure;  ///< why tuning ended early; empty if it did not
};

class Tuner {
 public:
  /// Creates a tuner. Setter, meter and peers must outlive it. Fails if the optimizer refuses the
  /// options.
  /// \param peers  null if this process is the whole job
  static Result<std::unique_ptr<Tuner>> make(TunerOptions options, KnobSetter& setter,
                                             WindowMeter& meter, Peers* peers = nullptr);
  virtual ~Tuner() = default;

  /// Starts the tuning. Called before the first step, in all processes.
  virtual void start() = 0;
  virtual void on(const StepEvent& event) = 0;
  /// Processes windows whose energy has become known. Must be called often.
  virtual void poll(Instant now) = 0;
  /// Reports the end of the job. Then call `poll` while `waits` returns true.
  virtual void finish() = 0;
  virtual bool waits() const = 0;
  /// Returns true while settings are still tried, so that each step counts.
  virtual bool profiles() const = 0;
  /// Ends the trials for good, in a job of one process, at the best setting known.
  /// \param why              for the report
  /// \param are_steps_timed  false if the start of steps is unknown from now on. Then the best
  ///                         setting stays only if it surely keeps the bound; otherwise the
  ///                         highest is set
  virtual void end_trials(const std::string& why, bool are_steps_timed) = 0;
  /// Reports another failure: nothing more is set or measured.
  virtual void fail(const Error& error) = 0;
  virtual TuningResult result() const = 0;
};

}  // namespace harpe::zeus
