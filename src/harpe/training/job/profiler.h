#pragma once
/// \file
/// The measurement of instruction costs at each clock while a job trains.
///
/// Each stage measures the clocks of its own list, highest first. All stages do so at the same
/// time, so that an iteration measures one clock of every stage. A block is a series of iterations
/// with one clock for each stage. The first iteration after a change is dropped, and so is every
/// throttled one. A stage moves to its next clock when the 95 % intervals of all its instructions
/// are narrow enough, or after `most_iterations_per_clock`. It ends at the end of its list, or when
/// its effective energy has risen `max_consecutive_increases` times in a row. Stages that have
/// ended, and all stages while slowdown has to be earned back, run at their highest clock. A stage
/// begins again if its measurements include a pipeline that is later found to be a straggler. It
/// also begins again, at most twice, if its costs changed in between: if it takes less time than at
/// a higher clock, or if its time at the highest clock, where it runs again and again, is no longer
/// the measured one. Otherwise the profile would compare clocks of different machines.
///
/// Ranks are aggregated to one value per GPU: the time is the longest mean over pipelines and
/// tensor shards, the energy is the mean over GPUs.
///
/// Blocking power is the power of a GPU outside its computations: (energy of the iteration - energy
/// of the computations) / (time of the iteration - time of the computations).
///
/// Energies and blocking power are means over iterations, weighted by inverse variance: right after
/// a change only power sensors separate computations from waiting, and they blur the two.
///
/// With `ProfilingOptions::as_is` no clock is requested. Each stage then has one point, at the
/// lockable clock that is nearest to the median clock reported by its GPUs. Iterations without a
/// reported clock are dropped; throttled ones are not, because their clock is reported too.
///
/// Not thread-safe; no clock of its own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/iteration_collector.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::training {

// The part of `Profiler` that measures one stage, from its highest clock downwards.

/// Measured costs of a stage's instructions at one clock, per GPU, in the order of its work items.
struct MeasuredClock {
  Megahertz clock;
  std::vector<Seconds> time;
  std::vector<Joules> energy;
  Seconds iteration_time{};  ///< of the job, median of the same iterations
};

/// Returns the largest factor by which computations can slow down from one clock to another; 1 if
/// `to` is not known.
double most_slowing(Megahertz from, Megahertz to);

/// Returns true if all shards of a group have reported, at a known clock.
bool is_usable(const GroupIteration& group, const JobShape& shape, const ProfilingOptions& options);

/// The profiling of one stage, one clock after the other, highest first. Not thread-safe.
class StageProfiling {
 public:
  /// \param work    outlives it
  /// \param clocks  highest first, not empty
  /// \param known   earlier measurements; if not empty, the stage is not measured again
  StageProfiling(const JobShape& shape, const plan::ScheduleWork& work, int stage,
                 std::vector<Megahertz> clocks, const ProfilingOptions& options,
                 std::vector<MeasuredClock> known);

  bool is_measuring() const { return position_ < clocks_.size() && !ended_; }
  bool has_ended() const { return ended_; }
  Megahertz highest_clock() const { return clocks_.front(); }
  /// Returns the clock that is measured now, or the highest clock if the stage has ended.
  Megahertz clock() const { return clocks_[is_measuring() ? position_ : 0]; }
  std::size_t clocks() const { return clocks_.size(); }
  std::size_t clocks_left() const { return ended_ ? 0 : clocks_.size() - position_; }
  /// Returns the largest factor by which the stage can be slower at the clock `ahead` positions
  /// after the current one than at the clock before the current one or, unless `since_last`, than
  /// at the highest.
  double slowing(std::size_t ahead, bool since_last) const;
  const std::vector<MeasuredClock>& measured() const { return measured_; }

  /// Adds an iteration that ran at the current clock by the assignments `version`.
  void add(const FinishedIteration& iteration, const std::vector<bool>& left_out,
           std::uint64_t version, Seconds time);
  std::size_t iterations() const { return samples_.iteration_time.size(); }
  /// Returns true if the current clock has enough samples.
  bool suffices() const;
  /// Returns true if the GPUs cannot run at the current clock: every iteration was throttled.
  bool is_held_back() const {
    return iterations() == 0 && throttled_ >= options_.most_iterations_per_clock;
  }
  /// Returns the costs at the current clock by its samples.
  MeasuredClock conclude() const;

  /// Begins again, at most twice, if the stage takes less time than at a higher clock, because it
  /// was slow then. Returns true if it begins again.
  bool begin_again_if_faster(const MeasuredClock& measured);
  /// Adds an iteration that ran at the highest clock to earn back slowdown. Begins again, at most
  /// twice, if the stage takes another time there than when it was measured. Returns true if it
  /// begins again.
  bool begin_again_if_changed(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                              std::uint64_t version);
  /// Adds the costs at the current clock and moves to the next clock, or ends.
  /// \param waiting  blocking power of its GPUs
  void close(MeasuredClock measured, Watts waiting);
  void skip();
  /// Leaves out a pipeline from now on. If earlier clocks were measured with it, the stage begins
  /// again and the function returns true; once for each pipeline.
  bool leave_out(int pipeline);
  /// Continues at the clock after the last one of `measured`, or starts over if the GPUs do not
  /// have that clock any more.
  void restore(std::vector<MeasuredClock> measured, bool ended);

 private:
  /// Samples of the current clock.
  struct Samples {
    std::vector<std::vector<double>> time, energy;  ///< of each item, one value an iteration
    std::vector<std::vector<double>> error;         ///< of each of those energies
    std::vector<double> sum_time;  ///< of each (pipeline, item), over the iterations
    std::vector<int> counts;       ///< of each pipeline: iterations in `sum_time`
    std::vector<double> iteration_time;
    std::vector<double> clock;  ///< MHz, of each group and iteration if no clock is requested
  };
  /// State of a pipeline's samples: not in `measured_`, in it, or dropped from it by `leave_out`.
  enum class Counted : unsigned char { kNot, kIs, kWas };

  const std::vector<plan::WorkItem>& work() const { return work_->stage(stage_); }
  bool is_measurable(const FinishedIteration& iteration, int pipeline,
                     const std::vector<bool>& left_out, std::uint64_t version) const;
  Seconds computing(const MeasuredClock& at) const;
  void clear();
  void begin_again();
  Megahertz reported_clock() const;
  bool rises_enough(Watts waiting) const;

  JobShape shape_;
  const plan::ScheduleWork* work_;
  int stage_;
  ProfilingOptions options_;
  std::vector<Megahertz> supported_;  ///< empty if clocks are requested
  std::vector<Megahertz> clocks_;     ///< to request; 0: unchanged
  std::vector<MeasuredClock> measured_;
  std::size_t position_ = 0;  ///< in `clocks_`
  bool ended_;
  int anew_ = 0;  ///< times that it began again because it was faster than at a higher clock
  std::vector<Counted> counted_;
  Samples samples_;
  /// Computation times in the newest iterations at the highest clock, of each pipeline.
  std::vector<std::vector<double>> at_highest_;
  int throttled_ = 0;  ///< iterations at the current clock in which a GPU was held back
};

/// The progress of profiling.
struct ProfilingProgress {
  double fraction = 0;      ///< done, 0 to 1
  int clocks = 0;           ///< clocks to measure, of the stage with the most
  int clocks_left = 0;      ///< remaining ones, of the stage with the most; fewer if it ends early
  int iterations_left = 0;  ///< estimate; fewer if effective energy rises early
  Seconds time_left{};      ///< estimate
  double slowdown = 0;      ///< time added so far, as a fraction of the same iterations at all-max
};

class Profiler {
 public:
  /// \param clocks  of each stage, highest first, not empty
  /// \param known   measurements of stages that are not measured again; empty for other stages
  Profiler(JobShape shape, const plan::ScheduleWork& work,
           std::vector<std::vector<Megahertz>> clocks, const ProfilingOptions& options,
           std::optional<PerStage<Watts>> blocking_power,
           std::vector<std::vector<MeasuredClock>> known = {});

  /// Returns the clock of each stage in the current block.
  std::vector<Megahertz> clocks() const;
  /// Notes that the current block's clocks hold from `iteration` by the assignments `version`.
  void begin(std::uint64_t version, std::int64_t iteration);

  enum class Next : unsigned char {
    kStay,
    kChange,  ///< the clocks change
    kAnew,    ///< the clocks change, because a stage whose costs have changed begins again
    kDone,
  };
  /// Adds an iteration.
  /// \param left_out  groups that are not measured, such as stragglers
  /// \param lead      iterations until a change holds
  Next add(const FinishedIteration& iteration, const std::vector<bool>& left_out, int lead);

  ProfilingProgress progress(int lead) const;
  bool done() const { return std::ranges::none_of(stages_, &StageProfiling::is_measuring); }
  /// Returns the time of an iteration at all-max; 0 if not measured yet.
  Seconds all_max_time() const { return {account_.full_time}; }
  /// Returns the stages that have no sample after more than twice the usual iterations of a block.
  /// A sample needs the times and energies of all instructions of a group.
  std::vector<int> without_energy() const;

  /// Returns the profile measured so far. Energies that are negative by noise are set to zero.
  Profile profile() const;
  /// Returns the blocking power of each stage. A stage that hardly waits gets the median of the
  /// other stages; zero if no stage waits.
  std::vector<Watts> blocking_power() const;
  std::vector<std::vector<MeasuredClock>> measured() const;

  /// Sums over all iterations so far.
  struct Account {
    double extra = 0;  ///< seconds lost to slow clocks
    double base = 0;   ///< seconds at all-max of the same iterations
    double full_time = 0;
    // Of each stage. The energy is `wait_time` x the mean power, whose weight is `wait_weight`.
    std::vector<double> wait_time, wait_energy, wait_weight;
  };
  /// The state from which another profiler continues. One entry for each stage.
  struct Kept {
    Account account;
    std::vector<std::vector<MeasuredClock>> measured;
    std::vector<bool> ended;
  };
  Kept kept() const;
  /// Continues from the state of another profiler of the same job, at the clock after the last
  /// measured one of each stage. A stage whose GPUs do not have that one any more starts over. The
  /// first block runs at all-max, because training was interrupted and has to warm up.
  void restore(Kept kept);

 private:
  Seconds explained(Seconds time) const;
  void account(const FinishedIteration& iteration, Seconds time);
  void account_waiting(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                       int stage);
  bool start_over(const std::vector<bool>& left_out);
  bool compare_at_all_max(const FinishedIteration& iteration, const std::vector<bool>& left_out);
  Next close_finished();
  Seconds predicted_time() const;
  double usual_iterations() const;
  Seconds slowest_time(std::size_t ahead) const;
  bool affordable(Seconds time, double iterations) const;

  JobShape shape_;
  const plan::ScheduleWork* work_;
  ProfilingOptions options_;
  std::optional<PerStage<Watts>> given_blocking_power_;
  std::vector<StageProfiling> stages_;
  std::uint64_t version_ = 0;
  std::int64_t from_ = 0;
  int block_iterations_ = 0;        ///< iterations of this block so far
  std::vector<Megahertz> before_;   ///< clocks of the block before
  std::vector<Megahertz> current_;  ///< clocks of this block
  bool resting_ = false;
  bool first_block_ = true;
  Seconds last_block_time_{};
  int closed_ = 0;             ///< number of measured clocks of all stages
  int closed_iterations_ = 0;  ///< iterations that they took
  Account account_;
  RunningMedian full_times_;
};

}  // namespace harpe::training
