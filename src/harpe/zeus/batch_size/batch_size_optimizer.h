#pragma once
/// \file
/// One recurring job's life: gives out batch sizes, follows the trials by their reports, says when
/// one is to stop, and remembers what came out. A value: the same calls at the same times make the
/// same choices, and `batch_size_optimizer_json` has all of it.
///
///   harpe::zeus::BatchSizeOptimizer optimizer(job, {.seed = 1});
///   auto trial = optimizer.next(now);                        // a recurrence begins
///   auto verdict = optimizer.report({.trial = trial->number, ...}, now);   // after each epoch
///
/// A trial has a lease: it may be silent for a while, which is learned from its own epochs. One
/// that is silent for longer has failed, and what it explored is explored again; so one that was
/// killed never blocks the job. Should it be heard again, its reports count after all.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/zeus/batch_size/batch_size_choice.h"
#include "harpe/zeus/batch_size/pay_back.h"
#include "harpe/zeus/batch_size/recurring_job.h"
#include "harpe/zeus/batch_size/thompson.h"

namespace harpe::zeus {

/// After an epoch; time and energy count from the beginning of the trial.
struct TrialReport {
  int trial = 0;  ///< its number
  int batch_size = 0;
  int epoch = 0;  ///< that has ended, from 1
  Seconds time{};
  Joules energy{};
  double metric = 0;  ///< NaN: the target is not met
};

/// What a trial is to do.
struct TrialVerdict {
  enum class Reason : unsigned char {
    kGoOn,
    kReached,    ///< the target, within the cost bound
    kTooCostly,  ///< beyond `beta` times the least cost
    kMaxEpochs,
    kWillNotReach,  ///< the target in the epochs it may have, by its metric (metric_curve.h)
    kReported,      ///< it had come to its end before
  };
  Reason reason = Reason::kGoOn;
  bool stop = false;
  bool converged = false;
  double cost = 0;     ///< J, so far
  double bound = 0;    ///< J; infinite where there is none
  int last_epoch = 0;  ///< that it may have, of `max_epochs` and within the bound
};

class BatchSizeOptimizer {
 public:
  /// Before its first report.
  static constexpr Seconds kFirstLease{24.0 * 3600};
  /// A lease after that: at least so long, and so many times the longest epoch.
  static constexpr Seconds kShortestLease{600};
  static constexpr double kLeaseEpochs = 10;
  /// Trials that are remembered; the oldest with an end go first. `cheapest` may be one that is
  /// gone.
  static constexpr std::size_t kMostTrials = 2000;
  /// Trials that converged whose metrics are remembered: the newest.
  static constexpr std::size_t kMostCurves = 16;
  /// Limits of a report. The mean power since the report before is at most `kMostPower` times the
  /// job's `max_power`, with `kCounterLag` added to the time because counters lag. An epoch takes
  /// at least `kShortestEpoch`.
  static constexpr double kMostPower = 2;
  static constexpr Seconds kCounterLag{1};
  static constexpr Seconds kShortestEpoch{0.001};

  /// \param now    from which `heard` counts
  /// \param prior  for Harpe's algorithm alone; no part of what is stored
  BatchSizeOptimizer(RecurringJob job, Draws draws, Seconds now = {},
                     const PayBackPrior& prior = {});

  const RecurringJob& job() const { return job_; }
  /// By number.
  const std::vector<Trial>& trials() const { return trials_; }
  const Trial* find(int trial) const;

  struct Given {
    Trial trial;
    std::string why;
  };
  /// A recurrence begins. `kInfeasible`: no batch size converges; `kUnavailable`: `kMostTrials` are
  /// under way.
  Result<Given> next(Seconds now);
  /// `kNotFound`: there is no such trial with that batch size; `kConflict`: it was given up;
  /// `kInvalidInput`: a number that cannot be, or more energy than the job's GPUs can draw in that
  /// time. What fails changes nothing.
  Result<TrialVerdict> report(const TrialReport& report, Seconds now);
  /// The trial ends without a result. Harmless where it has ended. `kNotFound` as above.
  Status give_up(int trial, int batch_size, Seconds now);
  /// A trial that was given up begins again, under its number. `kNotFound` where there is none.
  Result<Trial> begin_again(int trial, Seconds now);
  /// Takes a trial back, because its reports were wrong: it has no result any more, nor have those
  /// that were ended by comparing them with it. One that runs is given up. `kNotFound` as above.
  /// \returns  the numbers of those others
  Result<std::vector<int>> retract(int trial, Seconds now);
  /// Those whose lease is over have failed from now on. \returns  their numbers
  std::vector<int> expire(Seconds now);

  /// Converged, of least cost; null: none.
  const Trial* cheapest() const { return cheapest_ ? &*cheapest_ : nullptr; }
  /// When something has happened last.
  Seconds heard() const { return heard_; }
  bool has_running() const;
  /// How many trials there were: the number of the newest.
  int newest() const { return newest_; }

 private:
  friend std::string batch_size_optimizer_json(const BatchSizeOptimizer& optimizer);
  friend Result<BatchSizeOptimizer> parse_batch_size_optimizer(std::string_view text);

  Trial* find(int trial, int batch_size);
  Result<BatchSizeChoice> choose();
  TrialVerdict judge(const Trial& trial, double metric) const;
  int last_epoch(const Trial& trial, double bound) const;
  bool has_no_hope(const Trial& trial, int last_epoch) const;
  void forget_metrics();
  void finish(Trial& trial, const TrialVerdict& verdict);
  std::vector<int> retract_ended_by(const Trial& wrong);
  Status make_room();

  RecurringJob job_;
  Draws draws_;
  PayBackPrior prior_;
  std::vector<Trial> trials_;
  int newest_ = 0;  ///< number
  std::optional<Trial> cheapest_;
  Seconds heard_{};
};

/// How its states begin: what is stored says what it is.
inline constexpr const char* kBatchSizeFormat = "harpe.batch-size/1";
std::string batch_size_optimizer_json(const BatchSizeOptimizer& optimizer);
/// What was written by `batch_size_optimizer_json`, also by a newer Harpe.
Result<BatchSizeOptimizer> parse_batch_size_optimizer(std::string_view text);

}  // namespace harpe::zeus
