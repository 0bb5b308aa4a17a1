#include "harpe/lab/replay/traced_runs.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/hashed_random.h"

namespace harpe::lab {
namespace {

// Purposes of random draws.
constexpr std::uint64_t kRuns = 1, kChoices = 2;

}  // namespace

std::optional<int> TracedRuns::draw(const TracedSize& size) {
  const double at = uniform(mixed(seed_, kRuns, count_++)) * static_cast<double>(size.runs.size());
  return size.runs[static_cast<std::size_t>(at)];
}

void add_epochs(Recurrence& recurrence, const TracedJob& job, const TracedLimit& limit,
                int epochs) {
  recurrence.energy += limit.epoch_energy * epochs;
  recurrence.time += limit.epoch_time * epochs;
  recurrence.cost += job.epoch_cost(limit) * epochs;
}

int epochs_within(double bound, const TracedJob& job, const TracedSize& size) {
  if (std::isinf(bound)) return job.job.max_epochs;
  const TracedLimit& limit = size.limits[size.best];
  const double cost = job.job.eta * limit.epoch_energy.value +
                      (1 - job.job.eta) * size.limits.back().watts * limit.epoch_time.value;
  return static_cast<int>(std::min(std::floor(bound / cost), double{1.0} * job.job.max_epochs));
}

ZeusChooser::ZeusChooser(const zeus::RecurringJob& job, std::uint64_t seed)
    : job_(job),
      draws_{.seed = static_cast<std::int64_t>(mixed(seed, kChoices, 0) >> 1), .count = 0} {}

Result<int> ZeusChooser::next() {
  const zeus::PruningStep step = zeus::next_pruning_step(
      job_.batch_sizes, job_.default_batch_size, job_.pruning_rounds,
      [this](int size, int visit) -> std::optional<zeus::ExplorationResult> {
        const auto at = static_cast<std::size_t>(visit);
        const auto& known = explored_[size];
        return at < known.size() ? std::optional(known[at]) : std::nullopt;
      });
  awaited_ = step.explore;
  if (awaited_) return *awaited_;
  if (step.kept.empty()) return Error::infeasible("no batch size converges");
  std::vector<zeus::Belief> beliefs;
  for (const int size : step.kept) {
    beliefs.push_back(zeus::posterior(rewards_[size], job_.prior_mean, job_.prior_precision));
  }
  return step.kept[zeus::thompson_choice(beliefs, std::max(2, job_.explorations), draws_)];
}

void ZeusChooser::observe(int size, double cost, bool converged) {
  if (awaited_ == size) {
    explored_[size].push_back({cost, converged});
    awaited_.reset();
  }
  rewards_[size].push_back(-cost);
}

}  // namespace harpe::lab
