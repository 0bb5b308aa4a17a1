#include <algorithm>
#include <map>
#include <vector>

#include "harpe/zeus/batch_size/batch_size_choice.h"
#include "harpe/zeus/batch_size/pruning.h"

namespace harpe::zeus {
namespace {

/// The results of one size.
struct Results {
  std::vector<ExplorationResult> explorations;
  std::vector<double> rewards;  ///< of all trials
  bool exploring = false;       ///< true while an exploration runs
};

std::map<int, Results> results_by_size(const RecurringJob& job, std::span<const Trial> trials) {
  std::map<int, Results> results;
  for (const Trial& trial : trials) {
    Results& size = results[trial.batch_size];
    const bool explores = trial.kind == Trial::Kind::kExploration;
    if (explores && trial.status == Trial::Status::kDispatched) size.exploring = true;
    if (!trial.has_result()) continue;
    const double cost = job.cost(trial.energy, trial.time);
    size.rewards.push_back(-cost);
    if (explores) size.explorations.push_back({cost, trial.converged});
  }
  return results;
}

int sample(const RecurringJob& job, const std::vector<int>& sizes, std::map<int, Results>& results,
           Draws& draws) {
  std::vector<Belief> beliefs;
  for (const int size : sizes) {
    std::span<const double> rewards = results[size].rewards;
    if (job.window > 0) {
      rewards = rewards.last(std::min(rewards.size(), static_cast<std::size_t>(job.window)));
    }
    beliefs.push_back(posterior(rewards, job.prior_mean, job.prior_precision));
  }
  return sizes[thompson_choice(beliefs, job.explorations, draws)];
}

}  // namespace

const Trial* cheapest_trial(const RecurringJob& job, std::span<const Trial> trials) {
  const Trial* cheapest = nullptr;
  double least = 0;
  for (const Trial& trial : trials) {
    if (!trial.converged) continue;
    const double cost = job.cost(trial.energy, trial.time);
    if (cheapest != nullptr && cost >= least) continue;
    cheapest = &trial;
    least = cost;
  }
  return cheapest;
}

Result<BatchSizeChoice> choose_as_zeus(const RecurringJob& job, std::span<const Trial> trials,
                                       Draws& draws) {
  std::map<int, Results> results = results_by_size(job, trials);
  const PruningStep step =
      next_pruning_step(job.batch_sizes, job.default_batch_size, job.pruning_rounds,
                        [&](int size, int visit) -> std::optional<ExplorationResult> {
                          const std::vector<ExplorationResult>& known = results[size].explorations;
                          const auto at = static_cast<std::size_t>(visit);
                          return at < known.size() ? std::optional(known[at]) : std::nullopt;
                        });
  if (step.explore && results[*step.explore].exploring) {
    const Trial* cheapest = cheapest_trial(job, trials);
    return BatchSizeChoice{
        .batch_size = cheapest == nullptr ? job.default_batch_size : cheapest->batch_size,
        .kind = Trial::Kind::kConcurrent,
        .why = "the result of " + std::to_string(*step.explore) +
               " is not available yet; this is the cheapest so far"};
  }
  if (step.explore) {
    return BatchSizeChoice{.batch_size = *step.explore,
                           .kind = Trial::Kind::kExploration,
                           .why = "pruning, visit " + std::to_string(step.visit + 1)};
  }
  if (step.kept.empty()) {
    return Error::infeasible("no batch size of job " + job.id + " has converged");
  }
  return BatchSizeChoice{.batch_size = sample(job, step.kept, results, draws),
                         .kind = Trial::Kind::kExploitation,
                         .why = "Thompson sampling among " + std::to_string(step.kept.size())};
}

}  // namespace harpe::zeus
