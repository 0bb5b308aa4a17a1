#include "harpe/replay/recurrences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harpe/base/hashed_random.h"
#include "harpe/batch_size/batch_size_optimizer.h"
#include "harpe/batch_size/pruning.h"
#include "harpe/batch_size/thompson.h"
#include "harpe/replay/measured_limits.h"

namespace harpe {
namespace {

constexpr int kMostTries = 20;
// What the draws are for: runs of the trace do not depend on who chooses.
constexpr std::uint64_t kRuns = 1, kChoices = 2;

/// Draws runs from the trace.
class Runs {
 public:
  explicit Runs(std::uint64_t seed) : seed_(seed) {}
  std::optional<int> draw(const TracedSize& size) {
    const double at =
        uniform(mixed(seed_, kRuns, count_++)) * static_cast<double>(size.runs.size());
    return size.runs[static_cast<std::size_t>(at)];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

void add_epochs(Recurrence& recurrence, const TracedJob& job, const TracedLimit& limit,
                int epochs) {
  recurrence.energy += limit.epoch_energy * epochs;
  recurrence.time += limit.epoch_time * epochs;
  recurrence.cost += job.epoch_cost(limit) * epochs;
}

std::size_t index_of(const TracedJob& job, int batch_size) {
  return static_cast<std::size_t>(std::ranges::find(job.job.batch_sizes, batch_size) -
                                  job.job.batch_sizes.begin());
}

/// The bandit of Zeus's simulator with its pruning.
class ZeusChooser {
 public:
  ZeusChooser(const RecurringJob& job, std::uint64_t seed)
      : job_(job),
        draws_{.seed = static_cast<std::int64_t>(mixed(seed, kChoices, 0) >> 1), .count = 0} {}

  Result<int> next() {
    const PruningStep step =
        next_pruning_step(job_.batch_sizes, job_.default_batch_size, job_.pruning_rounds,
                          [this](int size, int visit) -> std::optional<ExplorationResult> {
                            const auto at = static_cast<std::size_t>(visit);
                            const auto& known = explored_[size];
                            return at < known.size() ? std::optional(known[at]) : std::nullopt;
                          });
    pruning_ = step.explore.has_value();
    if (pruning_) return *step.explore;
    if (step.kept.empty()) return Error::infeasible("no batch size converges");
    std::vector<Belief> beliefs;
    for (const int size : step.kept) {
      beliefs.push_back(posterior(rewards_[size], job_.prior_mean, job_.prior_precision));
    }
    return step.kept[thompson_choice(beliefs, std::max(2, job_.explorations), draws_)];
  }
  void observe(int size, double cost, bool converged) {
    if (pruning_) explored_[size].push_back({cost, converged});
    rewards_[size].push_back(-cost);
  }

 private:
  const RecurringJob& job_;
  Draws draws_;
  bool pruning_ = true;
  std::map<int, std::vector<ExplorationResult>> explored_;
  std::map<int, std::vector<double>> rewards_;
};

/// How many epochs of a run the bound lets pass.
int epochs_within(double bound, const TracedJob& job, const TracedSize& size) {
  if (std::isinf(bound)) return job.job.max_epochs;
  const TracedLimit& limit = size.limits[size.best];
  const double cost = job.job.eta * limit.epoch_energy.value +
                      (1 - job.job.eta) * size.limits.back().watts * limit.epoch_time.value;
  return static_cast<int>(std::min(std::floor(bound / cost), double{1.0} * job.job.max_epochs));
}

}  // namespace

Recurrences recur_by_default(const TracedJob& job, std::uint64_t seed) {
  Runs runs(seed);
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
  Runs runs(seed);
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
      const TracedSize& size = job.sizes[index_of(job, batch_size)];
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
                                   const PayBackPrior& prior) {
  RecurringJob recurring = job.job;
  recurring.algorithm = BatchSizeAlgorithm::kHarpe;
  BatchSizeOptimizer optimizer(recurring, {.seed = 0, .count = 0}, Seconds{0}, prior);
  Runs runs(seed);
  MeasuredLimits limits(job);
  Recurrences all;
  Seconds now{};
  const double reached = job.job.target_metric;
  const double missed = std::numeric_limits<double>::quiet_NaN();
  while (all.size() < static_cast<std::size_t>(recurring.recurrences)) {
    Recurrence one;
    bool converged = false;
    while (!converged) {
      if (one.tries++ == kMostTries) {
        return Error::infeasible(job.dataset + ": 20 tries did not converge");
      }
      const Trial trial = HARPE_TRY(optimizer.next(now)).trial;
      const TracedSize& size = job.sizes[index_of(job, trial.batch_size)];
      const std::optional<int> run = runs.draw(size);
      const TracedLimit first = limits.first_epoch(
          size, epochs_to_come(recurring, optimizer.trials(), trial.batch_size, prior));
      const TracedLimit& best = limits.best(size);
      Recurrence spent;
      TrialVerdict verdict;
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
  Runs runs(seed);
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

std::vector<KnownEpochs> known_epochs(const Recurrences& recurrences) {
  std::map<int, KnownEpochs> known;
  std::map<int, int> longest;
  for (const Recurrence& one : recurrences) {
    for (const auto& [size, epochs] : one.given_up) {
      longest[size] = std::max(longest[size], epochs);
    }
    KnownEpochs& all =
        known.try_emplace(one.batch_size, KnownEpochs{one.batch_size, 0, 0}).first->second;
    all.epochs = (all.epochs * all.runs + one.epochs) / (all.runs + 1);
    ++all.runs;
    // The newest: the first of a size has profiled its limits.
    if (one.tries == 1) all.epoch_cost = one.cost / one.epochs;
  }
  std::vector<KnownEpochs> list;
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

}  // namespace harpe
