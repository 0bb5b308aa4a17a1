#pragma once
/// \file
/// One stage's walk down its clocks while a job is profiled: the part of `Profiler` (profiler.h)
/// that knows one stage.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/iteration_collector.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::training {

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

}  // namespace harpe::training
