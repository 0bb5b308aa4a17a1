#pragma once
/// \file
/// The optimizer of one recurring job's batch size: it gives out batch sizes, follows the trials by
/// their reports, decides when a trial stops, and remembers the results. A value type: the same
/// calls at the same times make the same choices, and `batch_size_optimizer_json` contains its
/// whole state.
///
///   harpe::zeus::BatchSizeOptimizer optimizer(job, {.seed = 1});
///   auto trial = optimizer.next(now);                        // a recurrence begins
///   auto verdict = optimizer.report({.trial = trial->number, ...}, now);   // after each epoch
///
/// A trial has a lease: the longest time without a report, which is learned from the trial's own
/// epochs. When the lease expires, the trial has failed, and its batch size is explored again, so
/// that a killed trial never blocks the job. If the trial reports again later, its reports count.

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

/// The report of a trial after an epoch. Time and energy count from the start of the trial.
struct TrialReport {
  int trial = 0;  ///< its number
  int batch_size = 0;
  int epoch = 0;  ///< completed epochs, from 1
  Seconds time{};
  Joules energy{};
  double metric = 0;  ///< NaN does not meet the target
};

/// The optimizer's response to a report: whether the trial continues.
struct TrialVerdict {
  enum class Reason : unsigned char {
    kGoOn,
    kReached,    ///< the target was reached within the cost bound
    kTooCostly,  ///< beyond the cost bound, or not worth another epoch
    kMaxEpochs,
    /// Its metric will not reach the target in its remaining epochs (metric_curve.h).
    kWillNotReach,
    kReported,  ///< the trial had already ended
  };
  Reason reason = Reason::kGoOn;
  bool stop = false;
  bool converged = false;
  double cost = 0;     ///< J, so far
  double bound = 0;    ///< J; infinite if there is no bound
  int last_epoch = 0;  ///< last epoch that `max_epochs` and the bound allow
};

class BatchSizeOptimizer {
 public:
  /// Lease before the first report.
  static constexpr Seconds kFirstLease{24.0 * 3600};
  /// Later leases: `kLeaseEpochs` times the longest epoch, and at least `kShortestLease`.
  static constexpr Seconds kShortestLease{600};
  static constexpr double kLeaseEpochs = 10;
  /// Most trials that are remembered. The oldest one with an end is removed first, so `cheapest`
  /// may refer to a removed trial.
  static constexpr std::size_t kMostTrials = 2000;
  /// Most converged trials whose metrics are remembered: the newest ones.
  static constexpr std::size_t kMostCurves = 16;
  /// Limits of a report. The mean power since the report before is at most `kMostPower` times the
  /// job's `max_power`, with `kCounterLag` added to the time because counters lag. An epoch takes
  /// at least `kShortestEpoch`, and a trial at most `kLongestTime`.
  static constexpr double kMostPower = 2;
  static constexpr Seconds kCounterLag{1};
  static constexpr Seconds kShortestEpoch{0.001};
  static constexpr Seconds kLongestTime{10 * 365.0 * 86400};  ///< of a trial

  /// \param now    initial value of `heard`
  /// \param prior  for Harpe's algorithm only; not part of the stored state
  BatchSizeOptimizer(RecurringJob job, Draws draws, Seconds now = {},
                     const PayBackPrior& prior = {});

  const RecurringJob& job() const { return job_; }
  /// Returns the trials by rising number.
  const std::vector<Trial>& trials() const { return trials_; }
  const Trial* find(int trial) const;

  struct Given {
    Trial trial;
    std::string why;
  };
  /// Begins a recurrence. Fails with `kInfeasible` if no batch size converges, with `kUnavailable`
  /// if `kMostTrials` trials are under way.
  Result<Given> next(Seconds now);
  /// Handles a report. Fails with `kNotFound` if there is no such trial with that batch size, with
  /// `kConflict` if the trial was given up, with `kInvalidInput` if a number is impossible or the
  /// energy is more than the job's GPUs can draw in that time. A failed report changes nothing but
  /// `reports_refused`.
  Result<TrialVerdict> report(const TrialReport& report, Seconds now);
  /// Ends the trial without a result; does nothing if it has ended. `kNotFound` as above.
  Status give_up(int trial, int batch_size, Seconds now);
  /// Restarts a trial that was given up, under its number. Fails with `kNotFound` if there is none.
  Result<Trial> begin_again(int trial, Seconds now);
  /// Withdraws the result of a trial whose reports were wrong, and the results of the trials that
  /// were ended by a comparison with it. A running trial is given up. Returns the numbers of those
  /// other trials. Fails with `kNotFound` if there is no such trial.
  Result<std::vector<int>> retract(int trial, Seconds now);
  /// Marks the trials whose lease has expired as failed. Returns their numbers.
  std::vector<int> expire(Seconds now);

  /// Returns the converged trial of least cost; null if there is none.
  const Trial* cheapest() const { return cheapest_ ? &*cheapest_ : nullptr; }
  /// Returns the time of the last change.
  Seconds heard() const { return heard_; }
  bool has_running() const;
  /// Returns the number of the newest trial, which is the number of trials so far.
  int newest() const { return newest_; }
  /// Returns the number of reports that failed with `kInvalidInput`.
  std::int64_t reports_refused() const { return reports_refused_; }

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
  std::int64_t reports_refused_ = 0;
};

/// The format name at the start of a stored state.
inline constexpr const char* kBatchSizeFormat = "harpe.batch-size/1";
std::string batch_size_optimizer_json(const BatchSizeOptimizer& optimizer);
/// Parses the output of `batch_size_optimizer_json`, also that of a newer Harpe.
Result<BatchSizeOptimizer> parse_batch_size_optimizer(std::string_view text);

}  // namespace harpe::zeus
