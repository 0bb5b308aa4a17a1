#include "harpe/lab/replay/recurrences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harpe/lab/replay/measured_limits.h"
#include "harpe/lab/replay/traced_runs.h"
#include "harpe/zeus/batch_size/batch_size_optimizer.h"

namespace harpe::lab {

Recurrences recur_by_default(const TracedJob& job, std::uint64_t seed) {
  TracedRuns runs(seed);
  const TracedSize& size = job.sizes[job.first];
  Recurrences all;
  for (int i = 0; i < job.job.recurrences; ++i) {
    Recurrence& one = all.emplace_back();
    one = {.batch_size = size.batch_size, .power_limit = size.limits.back().watts, .tries = 1};
    add_epochs(one, job, size.limits.back(), runs.draw(size).value_or(job.job.max_epochs));
  }
  return all;
}

Result<Recurrences> recur_by_zeus(const TracedJob& job, std::uint64_t seed) {
  TracedRuns runs(seed);
  ZeusChooser chooser(job.job, seed);
  std::set<int> visited;
  double least = std::numeric_limits<double>::infinity();
  Recurrences all;
  while (all.size() < static_cast<std::size_t>(job.job.recurrences)) {
    Recurrence one;
    bool reached = false;
    while (!reached) {
      if (one.tries == kMostTries || (all.empty() && one.tries > 0)) {
        return Error::infeasible(job.dataset + ": " + std::to_string(one.tries) +
                                 " tries did not converge");
      }
      ++one.tries;
      const int batch_size = HARPE_TRY(chooser.next());
      const TracedSize& size = job.size_of(batch_size);
      const double bound = job.job.beta.value_or(2) * least;
      const int epochs = epochs_within(bound, job, size);
      if (epochs == 0) {
        chooser.observe(batch_size, 100 * bound, false);
        continue;
      }
      const std::optional<int> run = runs.draw(size);
      reached = run && *run <= epochs;
      const double before = one.cost;
      const bool is_first = visited.insert(batch_size).second;
      if (is_first) add_epochs(one, job, size.profiled(), 1);
      add_epochs(one, job, size.limits[size.best], (reached ? *run : epochs) - (is_first ? 1 : 0));
      one.batch_size = batch_size;
      one.power_limit = size.limits[size.best].watts;
      chooser.observe(batch_size, one.cost - before, reached);
    }
    least = std::min(least, one.cost);
    all.push_back(one);
  }
  return all;
}

Result<Recurrences> recur_by_harpe(const TracedJob& job, std::uint64_t seed,
                                   const zeus::PayBackPrior& prior) {
  zeus::RecurringJob recurring = job.job;
  recurring.algorithm = zeus::BatchSizeAlgorithm::kHarpe;
  recurring.recurrences = job.horizon.of(job.job.recurrences);
  zeus::BatchSizeOptimizer optimizer(recurring, {.seed = 0, .count = 0}, Seconds{0}, prior);
  TracedRuns runs(seed);
  MeasuredLimits limits(job);
  Recurrences all;
  Seconds now{};
  const double reached = job.job.target_metric;
  const double missed = std::numeric_limits<double>::quiet_NaN();
  while (all.size() < static_cast<std::size_t>(job.job.recurrences)) {
    Recurrence one;
    bool converged = false;
    while (!converged) {
      if (one.tries++ == kMostTries) {
        return Error::infeasible(job.dataset + ": 20 tries did not converge");
      }
      const zeus::Trial trial = HARPE_TRY(optimizer.next(now)).trial;
      const TracedSize& size = job.size_of(trial.batch_size);
      const std::optional<int> run = runs.draw(size);
      const TracedLimit first = limits.first_epoch(
          size, zeus::epochs_to_come(recurring, optimizer.trials(), trial.batch_size, prior));
      const TracedLimit& best = limits.best(size);
      Recurrence spent;
      zeus::TrialVerdict verdict;
      for (int epoch = 1; !verdict.stop; ++epoch) {
        add_epochs(spent, job, epoch == 1 ? first : best, 1);
        verdict = HARPE_TRY(optimizer.report({.trial = trial.number,
                                              .batch_size = trial.batch_size,
                                              .epoch = epoch,
                                              .time = spent.time,
                                              .energy = spent.energy,
                                              .metric = run == epoch ? reached : missed},
                                             now + spent.time));
      }
      now += spent.time;
      converged = verdict.converged;
      one.cost += spent.cost;
      one.time += spent.time;
      one.energy += spent.energy;
      one.epochs = optimizer.find(trial.number)->epochs;
      if (!converged) one.given_up.emplace_back(trial.batch_size, one.epochs);
      one.batch_size = trial.batch_size;
      one.power_limit = best.watts;
    }
    all.push_back(one);
  }
  return all;
}

Recurrences recur_by_grid(const TracedJob& job, std::uint64_t seed) {
  TracedRuns runs(seed);
  Recurrences all;
  const TracedSize* best_size = &job.sizes[job.first];
  const TracedLimit* best_limit = &best_size->limits.back();
  double least = std::numeric_limits<double>::infinity();
  const auto is_full = [&] { return all.size() >= static_cast<std::size_t>(job.job.recurrences); };
  for (const TracedSize& size : job.sizes) {
    for (std::size_t i = size.limits.size(); i-- > 0 && !is_full();) {
      const std::optional<int> run = runs.draw(size);
      Recurrence& one = all.emplace_back();
      one = {.batch_size = size.batch_size, .power_limit = size.limits[i].watts, .tries = 1};
      add_epochs(one, job, size.limits[i], run.value_or(job.job.max_epochs));
      if (!run) break;
      if (one.cost >= least) continue;
      least = one.cost;
      best_size = &size;
      best_limit = &size.limits[i];
    }
  }
  while (!is_full()) {
    Recurrence& one = all.emplace_back();
    one = {.batch_size = best_size->batch_size, .power_limit = best_limit->watts, .tries = 1};
    add_epochs(one, job, *best_limit, runs.draw(*best_size).value_or(job.job.max_epochs));
  }
  return all;
}

std::vector<zeus::KnownEpochs> known_epochs(const Recurrences& recurrences) {
  std::map<int, zeus::KnownEpochs> known;
  std::map<int, int> longest;
  for (const Recurrence& one : recurrences) {
    for (const auto& [size, epochs] : one.given_up) {
      longest[size] = std::max(longest[size], epochs);
    }
    zeus::KnownEpochs& all =
        known.try_emplace(one.batch_size, zeus::KnownEpochs{one.batch_size, 0, 0}).first->second;
    all.epochs = (all.epochs * all.runs + one.epochs) / (all.runs + 1);
    ++all.runs;
    // Keeps the newest cost: the first recurrence of a size also profiled its limits.
    if (one.tries == 1) all.epoch_cost = one.cost / one.epochs;
  }
  std::vector<zeus::KnownEpochs> list;
  for (const auto& [size, one] : known) list.push_back(one);
  for (const auto& [size, epochs] : longest) {
    if (!known.contains(size)) list.push_back({size, 1.0 * epochs, 1, false});
  }
  return list;
}

double cost_over_oracle(const TracedJob& job, const Recurrences& recurrences) {
  double cost = 0;
  for (const Recurrence& one : recurrences) cost += one.cost;
  return cost / (job.oracle_cost() * static_cast<double>(recurrences.size()));
}

}  // namespace harpe::lab
