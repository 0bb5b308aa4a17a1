#pragma once
/// \file
/// Measures what instructions cost at each clock while a job trains.
///
/// Each stage walks down its own list of clocks, all stages at the same time, so that an iteration
/// measures one clock of every stage. A block is some iterations with one clock a stage. The first
/// iteration after a change is dropped, and so is every throttled one. A stage goes on when the 95
/// % intervals of all its instructions are narrow enough, or after `most_iterations_per_clock`; it
/// ends at the end of its list, or when its effective energy has risen `max_consecutive_increases`
/// times in a row. Stages that have ended, and all stages while slowdown has to be earned back, run
/// their highest clock. A stage of which a straggler was measured, before it was known to be one,
/// begins again. So does, twice at most, one that takes less time than it did at a higher clock: it
/// was slow then.
///
/// Ranks are aggregated to one value per GPU: of time the longest over pipelines and tensor shards
/// (of each its mean), of energy the mean, which is the sum over the number of GPUs.
///
/// Blocking power is what a GPU draws outside its computations: (energy of the iteration - energy
/// of the computations) / (time of the iteration - time of the computations).
///
/// Energies and blocking power are means over iterations, weighted by inverse variance: right after
/// a change power sensors alone tell computations from the waiting beside them, and blur the two.
///
/// With `ProfilingOptions::as_is` no clock is asked for: each stage has one point, at the median
/// clock that its GPUs reported, as the nearest that they can be locked to. Iterations without such
/// a report are dropped; throttled ones are not, since their clock is a reported one as well.
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

/// Measured costs of one stage's instructions at one clock, per GPU, in the order of its work
/// items.
struct MeasuredClock {
  Megahertz clock;
  std::vector<Seconds> time;
  std::vector<Joules> energy;
  Seconds iteration_time{};  ///< of the job, at the same time
};

/// Returns the factor by which computations slow down at most from one clock to another; 1 if the
/// clock is not known.
double most_slowing(Megahertz from, Megahertz to);

/// Returns true if all shards of a group have reported, at a known clock.
bool is_usable(const GroupIteration& group, const JobShape& shape, const ProfilingOptions& options);

/// Samples the clocks of a stage one after the other, highest first. Not thread-safe.
class StageProfiling {
 public:
  /// \param work    outlives it
  /// \param clocks  highest first, not empty
  /// \param known   if not empty, the stage is not measured again
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
  /// Returns the factor by which the stage slows down at most at the clock that is `ahead` of the
  /// one measured now, from the clock measured last or, unless `since_last`, from the highest.
  double slowing(std::size_t ahead, bool since_last) const;
  const std::vector<MeasuredClock>& measured() const { return measured_; }

  /// Takes an iteration that ran at the current clock by the assignments `version`.
  void add(const FinishedIteration& iteration, const std::vector<bool>& left_out,
           std::uint64_t version, Seconds time);
  std::size_t iterations() const { return samples_.iteration_time.size(); }
  /// Returns true if enough is known of the current clock.
  bool suffices() const;
  /// Returns true if the GPUs do not reach the current clock: it is none that they have.
  bool is_held_back() const {
    return iterations() == 0 && throttled_ >= options_.most_iterations_per_clock;
  }
  /// Returns what the samples say of the current clock.
  MeasuredClock conclude() const;

  /// Begins again if the stage takes less time than at a higher clock, because it was slow then; at
  /// most twice. Returns true if so.
  bool begin_again_if_faster(const MeasuredClock& measured);
  /// Goes on to the next clock, or ends.
  /// \param waiting  blocking power of its GPUs
  void close(MeasuredClock measured, Watts waiting);
  void skip();
  /// Leaves out a pipeline from now on. If it is in what was measured so far, at some clocks and
  /// not at others, the stage begins again and returns true; once for each pipeline.
  bool leave_out(int pipeline);
  /// Goes on at the clock after the last one of `measured`, or starts over if the GPUs do not have
  /// that clock any more.
  void restore(std::vector<MeasuredClock> measured, bool ended);

 private:
  /// Samples of the current clock.
  struct Samples {
    std::vector<std::vector<double>> time, energy;  ///< of each item, one value an iteration
    std::vector<std::vector<double>> error;         ///< of each of those energies
    std::vector<double> sum_time;  ///< of each (pipeline, item), over the iterations
    std::vector<int> counts;       ///< of each pipeline: iterations in `sum_time`
    std::vector<double> iteration_time;
    std::vector<double> clock;  ///< MHz, of each group and iteration where no clock is asked for
  };
  /// Whether a pipeline's samples are in `measured_`; `kWas`: they were, before it was left out.
  enum class Counted : unsigned char { kNot, kIs, kWas };

  const std::vector<plan::WorkItem>& work() const { return work_->stage(stage_); }
  void clear();
  void begin_again();
  Megahertz reported_clock() const;
  bool rises_enough(Watts waiting) const;

  JobShape shape_;
  const plan::ScheduleWork* work_;
  int stage_;
  ProfilingOptions options_;
  std::vector<Megahertz> supported_;  ///< if no clock is asked for
  std::vector<Megahertz> clocks_;     ///< to be asked for; 0: as it is
  std::vector<MeasuredClock> measured_;
  std::size_t position_ = 0;  ///< in `clocks_`
  bool ended_;
  int anew_ = 0;  ///< how often it was faster than at a higher clock
  std::vector<Counted> counted_;
  Samples samples_;
  int throttled_ = 0;  ///< iterations at the current clock in which a GPU was held back
};

/// How far profiling is.
struct ProfilingProgress {
  double fraction = 0;      ///< done, 0 to 1
  int clocks = 0;           ///< to measure, of the stage that has most
  int clocks_left = 0;      ///< of the stage that has most; fewer where it ends early
  int iterations_left = 0;  ///< estimate; fewer where effective energy rises early
  Seconds time_left{};      ///< estimate
  double slowdown = 0;      ///< what profiling has cost so far, a fraction of the time since
};

class Profiler {
 public:
  /// \param clocks  of each stage, highest first, not empty. A stage in `known` is not measured
  ///                again: it keeps what is there.
  Profiler(JobShape shape, const plan::ScheduleWork& work,
           std::vector<std::vector<Megahertz>> clocks, const ProfilingOptions& options,
           std::optional<PerStage<Watts>> blocking_power,
           std::vector<std::vector<MeasuredClock>> known = {});

  /// The clock of each stage in the current block.
  std::vector<Megahertz> clocks() const;
  /// Tells that the current block's clocks hold from `iteration` by the assignments `version`.
  void begin(std::uint64_t version, std::int64_t iteration);

  enum class Next : unsigned char {
    kStay,
    kChange,  ///< of clocks
    kAnew,    ///< the same: a stage begins again that was slow for a while
    kDone,
  };
  /// Takes an iteration. \param left_out  groups that say nothing about the others, such as
  /// stragglers; \param lead  iterations until a change holds.
  Next add(const FinishedIteration& iteration, const std::vector<bool>& left_out, int lead);

  ProfilingProgress progress(int lead) const;
  bool done() const { return std::ranges::none_of(stages_, &StageProfiling::is_measuring); }
  /// Time of an iteration at all-max; 0: not measured yet.
  Seconds all_max_time() const { return {account_.full_time}; }
  /// Stages of which no rank has reported any energy.
  std::vector<int> without_energy() const;

  /// What is known. Where measured times and energies are negative by noise, at least zero.
  Profile profile() const;
  /// One a stage. A stage that hardly waits has the middle of the others'; zero where none waits.
  std::vector<Watts> blocking_power() const;
  std::vector<std::vector<MeasuredClock>> measured() const;

  /// Sums over all iterations so far.
  struct Account {
    double extra = 0;  ///< seconds lost to slow clocks
    double base = 0;   ///< seconds at all-max of the same iterations
    double full_time = 0;
    // Of each stage. The energy is that of the mean power, in which `wait_weight` counts.
    std::vector<double> wait_time, wait_energy, wait_weight;
  };
  /// What a profiler leaves to the one that goes on with its work. One entry a stage.
  struct Kept {
    Account account;
    std::vector<std::vector<MeasuredClock>> measured;
    std::vector<bool> ended;
  };
  Kept kept() const;
  /// Goes on from what another profiler of the same job had measured, at the clock after the last
  /// measured one of each stage; a stage whose GPUs do not have that one any more starts over. At
  /// all-max first: training has stood still, so that it has to warm up.
  void restore(Kept kept);

 private:
  Seconds explained(Seconds time) const;
  void account(const FinishedIteration& iteration, Seconds time);
  void account_waiting(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                       int stage);
  bool start_over(const std::vector<bool>& left_out);
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
  int block_iterations_ = 0;        ///< that have finished in this block
  std::vector<Megahertz> before_;   ///< clocks of the block before
  std::vector<Megahertz> current_;  ///< clocks of this block
  bool resting_ = false;
  bool first_block_ = true;
  Seconds last_block_time_{};
  int closed_ = 0;             ///< clocks, of all stages
  int closed_iterations_ = 0;  ///< that they took
  Account account_;
  RunningMedian full_times_;
};

}  // namespace harpe::training
