#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {
namespace {

/// Returns the shortest time at which the average power of the bound, which falls with time, is at
/// most `cap`; the longest time if there is none.
Seconds earliest_bound_within(const Frontier& frontier, Watts cap) {
  const auto over = [&](Seconds time) { return frontier.lower_bound(time) / time > cap; };
  Seconds low = frontier.min_time(), high = frontier.max_time();
  if (over(high)) return high;
  if (!over(low)) return low;
  for (int i = 0; i < 100; ++i) {
    const Seconds middle = (low + high) / 2;
    (over(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace

Result<Plan> Frontier::plan_for_power_cap(Watts cap, const PlanOptions& options) const {
  const Watts waiting =
      data_->problem.total_blocking_power() * static_cast<double>(data_->problem.gpus_per_stage);
  if (!(cap > waiting)) {
    return Error::infeasible("a cap of " + shortest(cap.value) +
                             " W cannot be met: the GPUs draw " + shortest(waiting.value) +
                             " W while they wait");
  }
  Seconds first = earliest_bound_within(*this, cap);
  if (options.switching()) {
    const Plan fastest = HARPE_TRY(fastest_plan(options));
    first = std::max(first, fastest.iteration_time);
  }
  const auto search = [&](const PlanOptions& how) {
    return data_->search_under_cap(cap, first, how);
  };
  return data_->is_small() ? data_->fastest_of_small(search, cap, first, options) : search(options);
}

// Plans are slightly above the bound. The search tries slower deadlines until a plan fits, then
// bisects between it and the slowest plan that does not.
Result<Plan> Frontier::Data::search_under_cap(Watts cap, Seconds first,
                                              const PlanOptions& options) const {
  constexpr int kTries = 10;     // until a plan fits
  constexpr int kHalvings = 14;  // to about 1e-4 of the first interval
  const Watts waiting =
      problem.total_blocking_power() * static_cast<double>(problem.gpus_per_stage);
  const Seconds high = std::max(min_time, seconds(curve.longest + longest_chain));
  std::optional<Plan> best;
  Watts least = cap;
  Seconds over{0};
  Seconds deadline = first;
  for (int i = 0; i < (best ? kTries + kHalvings : kTries); ++i) {
    Plan plan = HARPE_TRY(glance(deadline, options));
    const Seconds time = plan.iteration_time;
    const Joules energy = plan.iteration_energy;
    const Watts power = energy / time;
    if (power <= cap) {
      if (!best || time < best->iteration_time) best = std::move(plan);
    } else {
      over = std::max(over, deadline);
      least = power;
    }
    if (best) {
      const Seconds middle = (over + best->iteration_time) / 2;
      if (over <= Seconds{0} || best->iteration_time - middle < 1e-4 * middle) break;
      deadline = middle;
    } else {
      if (deadline >= high) break;
      // The time at which waiting would meet the cap; in the last try, the longest time.
      const Seconds waited = (energy - waiting * time) / (cap - waiting);
      deadline = i + 2 == kTries ? high : std::min(high, std::max(waited, deadline * 1.0005));
    }
  }
  if (best && (options.search_windows > 0 || options.switching())) {
    Plan searched = HARPE_TRY(search(best->iteration_time, options));
    const bool is_within = searched.iteration_energy / searched.iteration_time <= cap;
    if (is_within && searched.iteration_energy < best->iteration_energy) return searched;
  }
  if (best) return *std::move(best);
  return Error::infeasible("a cap of " + shortest(cap.value) +
                           " W cannot be met: the slowest plan draws " + shortest(least.value, 1) +
                           " W");
}

}  // namespace harpe
