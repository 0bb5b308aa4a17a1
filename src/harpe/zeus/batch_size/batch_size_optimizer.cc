#include "harpe/zeus/batch_size/batch_size_optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {
namespace {

// Later epochs may be cheaper than earlier ones.
constexpr double kLeastEpochCost = 0.95;
// A run takes up to this multiple of the epochs that others of its size took on another GPU.
constexpr double kKnownEpochs = 1.25;

Error no_such_trial(int trial, int batch_size) {
  return Error::of(ErrorCode::kNotFound, "there is no trial " + std::to_string(trial) +
                                             " with batch size " + std::to_string(batch_size));
}

Status check_report(const RecurringJob& job, const TrialReport& report, const Trial& trial) {
  using Optimizer = BatchSizeOptimizer;
  Diagnostics diagnostics;
  // The negated comparisons also reject NaN.
  if (!(report.time.value >= 0 && report.time <= Optimizer::kLongestTime)) {
    diagnostics.add("time must be a number of seconds from 0 to 10 years");
  }
  if (!(report.energy.value >= 0 && std::isfinite(report.energy.value))) {
    diagnostics.add("energy must be a number of joules from 0");
  }
  if (report.epoch < 1) diagnostics.add("current_epoch must be at least 1");
  if (diagnostics.empty() &&
      (report.epoch < trial.epochs || report.time < trial.time || report.energy < trial.energy)) {
    diagnostics.add("trial " + std::to_string(trial.number) + " reported more before (" +
                    std::to_string(trial.epochs) + " epochs, " + shortest(trial.time.value) +
                    " s, " + shortest(trial.energy.value) +
                    " J): count time, energy and epochs from its beginning; if that report was "
                    "wrong, retract the trial");
  }
  if (diagnostics.empty() && report.time < Optimizer::kShortestEpoch * report.epoch) {
    diagnostics.add("time, " + shortest(report.time.value) + " s, is too short for " +
                    std::to_string(report.epoch) + (report.epoch == 1 ? " epoch" : " epochs") +
                    ": give it in seconds");
  }
  const Joules used = report.energy - trial.energy;
  const Seconds passed = report.time - trial.time;
  const Joules most = job.max_power * Optimizer::kMostPower * (passed + Optimizer::kCounterLag);
  if (diagnostics.empty() && used > most) {
    diagnostics.add("energy, " + shortest(used.value, 4) + " J more in " +
                    shortest(passed.value, 4) + " s, is more than twice what max_power, " +
                    shortest(job.max_power.value) + " W, can draw in that time");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace

BatchSizeOptimizer::BatchSizeOptimizer(RecurringJob job, Draws draws, Seconds now,
                                       const PayBackPrior& prior)
    : job_(std::move(job)), draws_(draws), prior_(prior), heard_(now) {}

const Trial* BatchSizeOptimizer::find(int trial) const {
  const auto at = std::ranges::lower_bound(trials_, trial, {}, &Trial::number);
  return at != trials_.end() && at->number == trial ? &*at : nullptr;
}

Trial* BatchSizeOptimizer::find(int trial, int batch_size) {
  const Trial* found = find(trial);
  if (found == nullptr || found->batch_size != batch_size) return nullptr;
  return &trials_[static_cast<std::size_t>(found - trials_.data())];
}

bool BatchSizeOptimizer::has_running() const {
  return std::ranges::find(trials_, Trial::Status::kDispatched, &Trial::status) != trials_.end();
}

Result<BatchSizeOptimizer::Given> BatchSizeOptimizer::next(Seconds now) {
  expire(now);
  HARPE_TRY(make_room());
  BatchSizeChoice choice = HARPE_TRY(choose());
  if (choice.kind == Trial::Kind::kConcurrent && cheapest_) {
    choice.batch_size = cheapest_->batch_size;
  }
  trials_.push_back({.number = ++newest_,
                     .batch_size = choice.batch_size,
                     .kind = choice.kind,
                     .begun = now,
                     .heard = now,
                     .lease = kFirstLease});
  heard_ = now;
  return Given{.trial = trials_.back(), .why = std::move(choice.why)};
}

Result<BatchSizeChoice> BatchSizeOptimizer::choose() {
  if (job_.algorithm == BatchSizeAlgorithm::kHarpe) {
    return choose_by_pay_back(job_, trials_, prior_);
  }
  return choose_as_zeus(job_, trials_, draws_);
}

TrialVerdict BatchSizeOptimizer::judge(const Trial& trial, double metric) const {
  TrialVerdict verdict{.cost = job_.cost(trial.energy, trial.time),
                       .bound = std::numeric_limits<double>::infinity()};
  if (job_.beta && cheapest_) {
    verdict.bound = *job_.beta * job_.cost(cheapest_->energy, cheapest_->time);
  }
  verdict.last_epoch = last_epoch(trial, verdict.bound);
  using Reason = TrialVerdict::Reason;
  // Zeus repeats a training that reached its target beyond the bound.
  const bool is_over = verdict.cost > verdict.bound;
  const bool counts = !is_over || job_.algorithm == BatchSizeAlgorithm::kHarpe;
  if (counts && job_.reaches(metric)) {
    verdict.reason = Reason::kReached;
  } else if (is_over) {
    verdict.reason = Reason::kTooCostly;
  } else if (trial.epochs >= job_.max_epochs) {
    verdict.reason = Reason::kMaxEpochs;
  } else if (job_.algorithm == BatchSizeAlgorithm::kHarpe &&
             !is_worth_another_epoch(job_, trials_, trial, prior_)) {
    verdict.reason = Reason::kTooCostly;
    verdict.bound = verdict.cost;
  } else if (has_no_hope(trial, verdict.last_epoch)) {
    verdict.reason = Reason::kWillNotReach;
  }
  verdict.stop = verdict.reason != Reason::kGoOn;
  verdict.converged = verdict.reason == Reason::kReached;
  return verdict;
}

int BatchSizeOptimizer::last_epoch(const Trial& trial, double bound) const {
  if (std::isinf(bound) || trial.epochs < 2) return job_.max_epochs;
  const double first = job_.cost(trial.first_energy, trial.first_time);
  const double cost = job_.cost(trial.energy, trial.time);
  const double epoch_cost = first > 0 ? (cost - first) / (trial.epochs - 1) : cost / trial.epochs;
  const double most = job_.max_epochs - trial.epochs;
  const double left = (bound - cost) / (kLeastEpochCost * epoch_cost);
  if (!(left < most)) return job_.max_epochs;
  return trial.epochs + static_cast<int>(std::max(0.0, left));
}

/// Returns true if the trial's metric will not reach the target. Always false with Zeus's rules.
bool BatchSizeOptimizer::has_no_hope(const Trial& trial, int last_epoch) const {
  if (job_.algorithm != BatchSizeAlgorithm::kHarpe) return false;
  const auto comes_later = [&trial](const KnownEpochs& known) {
    return known.converged && known.batch_size == trial.batch_size &&
           trial.epochs < kKnownEpochs * known.epochs;
  };
  if (std::ranges::any_of(job_.known_epochs, comes_later)) return false;
  std::vector<const MetricCurve*> converged;
  for (const Trial& one : trials_) {
    if (one.converged && !one.metrics.empty()) converged.push_back(&one.metrics);
  }
  return will_not_reach(trial.metrics, converged,
                        {.metric = job_.target_metric,
                         .higher_is_better = job_.higher_is_better,
                         .last_epoch = last_epoch});
}

/// Clears the metrics of trials that ended without the target, and of older converged trials.
void BatchSizeOptimizer::forget_metrics() {
  std::size_t kept = 0;
  for (Trial& trial : std::views::reverse(trials_)) {
    if (trial.status == Trial::Status::kDispatched || trial.metrics.empty()) continue;
    const bool counts = trial.has_result() && trial.converged && kept < kMostCurves;
    if (counts) ++kept;
    if (!counts) trial.metrics.clear();
  }
}

void BatchSizeOptimizer::finish(Trial& trial, const TrialVerdict& verdict) {
  trial.status = Trial::Status::kSucceeded;
  trial.converged = verdict.converged;
  // Zeus also counts trials that did not converge, which makes the bound too low for all others.
  const bool is_cheapest =
      trial.converged &&
      (!cheapest_ || verdict.cost < job_.cost(cheapest_->energy, cheapest_->time));
  if (is_cheapest) cheapest_ = trial;
  if (is_cheapest) cheapest_->metrics.clear();
  forget_metrics();
}

Result<TrialVerdict> BatchSizeOptimizer::report(const TrialReport& report, Seconds now) {
  expire(now);
  Trial* trial = find(report.trial, report.batch_size);
  if (trial == nullptr) return no_such_trial(report.trial, report.batch_size);
  if (trial->status == Trial::Status::kSucceeded) {
    return TrialVerdict{.reason = TrialVerdict::Reason::kReported,
                        .stop = true,
                        .converged = trial->converged,
                        .cost = job_.cost(trial->energy, trial->time)};
  }
  // A lease of 0 means that the trial was given up by its client, or retracted.
  if (trial->status == Trial::Status::kFailed && trial->lease == Seconds{0}) {
    return Error::of(ErrorCode::kConflict,
                     "trial " + std::to_string(report.trial) + " was abandoned or retracted");
  }
  if (Status possible = check_report(job_, report, *trial); !possible.ok()) {
    ++reports_refused_;
    return std::move(possible).error();
  }
  trial->status = Trial::Status::kDispatched;
  const Seconds longest_epoch = trial->epochs == 0
                                    ? now - trial->begun
                                    : std::max(now - trial->heard, trial->lease / kLeaseEpochs);
  trial->lease = std::max(kShortestLease, longest_epoch * kLeaseEpochs);
  if (report.epoch == 1) {
    trial->first_time = report.time;
    trial->first_energy = report.energy;
  }
  trial->epochs = report.epoch;
  trial->time = report.time;
  trial->energy = report.energy;
  trial->heard = heard_ = now;
  // Zeus's rules use only the last metric.
  if (job_.algorithm == BatchSizeAlgorithm::kHarpe) {
    trial->metrics.add(report.epoch, report.metric);
  }
  const TrialVerdict verdict = judge(*trial, report.metric);
  if (verdict.stop) finish(*trial, verdict);
  return verdict;
}

Status BatchSizeOptimizer::give_up(int trial, int batch_size, Seconds now) {
  Trial* found = find(trial, batch_size);
  if (found == nullptr) return no_such_trial(trial, batch_size);
  if (found->status == Trial::Status::kSucceeded) return ok_status();
  found->status = Trial::Status::kFailed;
  found->lease = Seconds{0};
  found->metrics.clear();
  heard_ = now;
  return ok_status();
}

Result<Trial> BatchSizeOptimizer::begin_again(int trial, Seconds now) {
  const Trial* known = find(trial);
  Trial* found = known == nullptr ? nullptr : find(trial, known->batch_size);
  if (found == nullptr || found->status != Trial::Status::kFailed) {
    return Error::of(ErrorCode::kNotFound,
                     "there is no trial " + std::to_string(trial) + " that was abandoned");
  }
  *found = {.number = found->number,
            .batch_size = found->batch_size,
            .kind = found->kind,
            .begun = now,
            .heard = now,
            .lease = kFirstLease};
  heard_ = now;
  return *found;
}

Result<std::vector<int>> BatchSizeOptimizer::retract(int trial, Seconds now) {
  const Trial* known = find(trial);
  const bool was_cheapest = cheapest_ && cheapest_->number == trial;
  if (known == nullptr && !was_cheapest) {
    return Error::of(ErrorCode::kNotFound, "there is no trial " + std::to_string(trial));
  }
  if (known != nullptr) {
    Trial& found = *find(trial, known->batch_size);
    found.status = Trial::Status::kFailed;
    found.converged = false;
    found.lease = Seconds{0};
    found.metrics.clear();
  }
  heard_ = now;
  if (!was_cheapest) return std::vector<int>{};
  const Trial wrong = *std::exchange(cheapest_, std::nullopt);
  if (const Trial* next = cheapest_trial(job_, trials_)) {
    cheapest_ = *next;
    cheapest_->metrics.clear();
  }
  return retract_ended_by(wrong);
}

/// Retracts the trials that cost more than `wrong` but not more than the bound without it, and that
/// ended after it with epochs left: their results would keep sizes from being tried. Returns the
/// numbers of these trials.
std::vector<int> BatchSizeOptimizer::retract_ended_by(const Trial& wrong) {
  const auto cost_of = [this](const Trial& one) { return job_.cost(one.energy, one.time); };
  const double bound = cheapest_ && job_.beta ? *job_.beta * cost_of(*cheapest_)
                                              : std::numeric_limits<double>::infinity();
  std::vector<int> others;
  for (Trial& one : trials_) {
    const bool is_ended_by = one.has_result() && !one.converged && one.heard >= wrong.heard &&
                             one.epochs < job_.max_epochs && cost_of(one) > cost_of(wrong) &&
                             cost_of(one) <= bound;
    if (!is_ended_by) continue;
    one.status = Trial::Status::kFailed;
    one.lease = Seconds{0};
    others.push_back(one.number);
  }
  return others;
}

std::vector<int> BatchSizeOptimizer::expire(Seconds now) {
  std::vector<int> expired;
  for (Trial& trial : trials_) {
    if (trial.status != Trial::Status::kDispatched || now <= trial.heard + trial.lease) continue;
    trial.status = Trial::Status::kFailed;
    trial.metrics.clear();
    expired.push_back(trial.number);
  }
  return expired;
}

Status BatchSizeOptimizer::make_room() {
  if (trials_.size() < kMostTrials) return ok_status();
  // Explorations stay, because pruning is replayed from them.
  const auto oldest = std::ranges::find_if(trials_, [](const Trial& trial) {
    return trial.status == Trial::Status::kFailed ||
           (trial.has_result() && trial.kind != Trial::Kind::kExploration);
  });
  if (oldest == trials_.end()) {
    return Error::of(ErrorCode::kUnavailable, "job " + job_.id + " has " +
                                                  std::to_string(kMostTrials) +
                                                  " trials in progress; wait until one ends");
  }
  trials_.erase(oldest);
  return ok_status();
}

}  // namespace harpe::zeus
