#pragma once
/// \file
/// Tunes one running job: hears of its steps, measures windows of them, and has the setting put in
/// force that an optimizer of power_limit chooses.
///
/// Profiled (SettingProfiler): a window's energy is known a little after its end (counters lag by
/// 0.1 s); until then the setting stays and steps are no part of any window. Once chosen, the
/// setting is measured in windows for as long as it is in force, and the highest setting is looked
/// at again along the run (profiled_tuner.h): a saving is claimed by comparing the two
/// (saving_account.h). A step over 5 times the usual is a pause and measured nowhere. A setting
/// that turns out to break the selector's bound is left for the next higher one. Where steps drift
/// for good, the job is profiled again, once it ran four times as long as profiling took.
///
/// A trial that goes on without steps ends at the best setting known: after a minute, and 20 times
/// the usual step, without a step or the end of an epoch.
///
/// Online (OnlineOptimizer): a window a step.
///
/// A job of several processes that train in step has a tuner in each, of the GPUs of its own
/// (Peers). They profile with windows of equal length, by the sum of their energies and the
/// longest of their times, and wait at a window's end until its energy is known. Later they ask one
/// another about every 10 s whether to profile again, to leave the setting, or to end because one
/// of them can set or measure nothing any more. What a result says of steps and joules is of this
/// process, but for `job_saving`.
///
/// Time and energy come through interfaces: no thread, no clock. Not thread-safe.

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
#include "harpe/zeus/power_limit/online_optimizer.h"
#include "harpe/zeus/power_limit/setting_profiler.h"
#include "harpe/zeus/tuning/saving_account.h"
#include "harpe/zeus/tuning/step_file.h"

namespace harpe::zeus {

enum class Reduction : unsigned char { kSum, kMax };

/// The processes of a job that train in step, each with GPUs of its own, as a tuner in each of them
/// needs the others: by the job's own reductions, so that nothing has to be set up beside them.
///
/// What is reduced is alike everywhere afterwards, and a tuner decides by that alone; so all of
/// them decide alike, at the same step. Every process must call `reduce` at the same steps, in the
/// same order, with as many values, and on_step_begin and on_epoch_end as often as the others.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Over all processes, in place. Waits for the slowest. A failure ends the tuning of this process
  /// for good.
  virtual Status reduce(Reduction how, std::span<double> values) = 0;
};

struct MeteredWindow {
  Joules energy{};  ///< all GPUs of the job
  Joules error{};   ///< half-width of the 95 % interval
};

/// Energy between two instants that have just passed, for one window at a time.
class WindowMeter {
 public:
  /// Counters that step more seldom than usual are taken as they stand.
  static constexpr Seconds kLongestSettling{1};

  virtual ~WindowMeter() = default;
  virtual Status begin(Instant at) = 0;
  /// Whether waiting makes the energy until then no better known.
  virtual bool settled(Instant at) const = 0;
  /// Waits until then, but no longer than `kLongestSettling`.
  virtual void settle(Instant at) = 0;
  virtual Result<MeteredWindow> end(Instant at) = 0;
  virtual void cancel() = 0;
};

/// Puts a setting in force on all GPUs of a job. The first setting of its knob is what was found,
/// so that nothing is ever raised, and `set(0)` is allowed wherever setting anything is.
class KnobSetter {
 public:
  virtual ~KnobSetter() = default;
  virtual const Knob& knob() const = 0;
  virtual Status set(std::size_t setting) = 0;
  /// To be called again and again, from any thread: what is in force would end otherwise.
  virtual Status keep(Instant now) = 0;
  /// Everything as it was found.
  virtual Status restore() = 0;
};

/// Where nothing may or can be set: what was found stays, and is measured.
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
  bool online = false;
  double online_slowdown = 0.05;  ///< budget, where the selector has no bound
  /// Of the selector's host power, what is this process's to account for; none: all of it.
  std::optional<Watts> own_host_power{};
  /// Of an earlier run of this job on such GPUs, highest setting first; empty: none.
  std::vector<Measurement> known{};
  /// Of earlier runs with other batch sizes, for a job of one process.
  std::vector<SizeProfile> others{};
  int batch_size = 1;
};

struct TuningResult {
  Knob knob;
  std::int64_t steps = 0, epochs = 0;  ///< seen
  /// The setting chosen; while `decided` is false the best as far as measured, and not in force for
  /// that reason. None: nothing was measured.
  std::optional<std::size_t> choice;
  bool decided = false;
  bool from_profile = false;  ///< chosen by what an earlier run measured
  int profilings = 0;         ///< begun
  /// Of a step at `choice` against the highest setting, a fraction, by the newest looks.
  std::optional<double> slowdown{};
  /// Why settings are tried no more; empty: they may be.
  std::vector<std::string> trials_ended{};
  std::vector<StepCost> costs;            ///< one a setting, since the last profiling began
  std::vector<std::int64_t> steps_under;  ///< likewise
  Saving saving;                          ///< of the whole run, against the highest setting
  std::vector<Measurement> measurements;  ///< of the last profiling, of all processes
  /// Of all processes, as far as they have told one another.
  std::optional<Saving> job_saving;
  std::string failure;  ///< why tuning ended early; empty: it did not
};

class Tuner {
 public:
  /// Setter, meter and peers must outlive it. Fails for options that the optimizer refuses.
  /// \param peers  null: the job is of this process alone
  static Result<std::unique_ptr<Tuner>> make(TunerOptions options, KnobSetter& setter,
                                             WindowMeter& meter, Peers* peers = nullptr);
  virtual ~Tuner() = default;

  /// Before the first step, in all processes.
  virtual void start() = 0;
  virtual void on(const StepEvent& event) = 0;
  /// To be called often: takes windows whose energy is known by now.
  virtual void poll(Instant now) = 0;
  /// The job has ended. Go on with `poll` while it `waits`.
  virtual void finish() = 0;
  virtual bool waits() const = 0;
  /// Whether settings are still tried, so that each step counts.
  virtual bool profiles() const = 0;
  /// Ends a trial at the best setting known, for good, in a job of one process.
  /// \param why            for the report
  /// \param are_steps_timed  false: when steps begin is not known from now on. The setting stays
  virtual void end_trials(const std::string& why, bool are_steps_timed) = 0;
  /// Something else failed: no more is set or measured.
  virtual void fail(const Error& error) = 0;
  virtual TuningResult result() const = 0;
};

}  // namespace harpe::zeus
