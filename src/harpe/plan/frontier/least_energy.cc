#include <algorithm>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {
namespace {

/// Keeps the plan of least energy.
class Best {
 public:
  explicit Best(Plan first) : plan_(std::move(first)) {}
  bool offer(Plan plan) {
    if (plan.iteration_energy >= plan_.iteration_energy) return false;
    plan_ = std::move(plan);
    return true;
  }
  const Plan& plan() const { return plan_; }

 private:
  Plan plan_;
};

/// What an iteration that waits until `time` needs at least.
Joules bound_at(const Frontier::Data& data, Seconds time) {
  const Joules waiting = data.problem.total_blocking_power() * time;
  return (data.effective(time) + waiting) * data.problem.gpus_per_stage;
}

/// The time nearest to `far`, seen from `near` where the bound is below `energy`, until which it
/// is.
Seconds still_below(const Frontier::Data& data, Joules energy, Seconds near, Seconds far) {
  if (bound_at(data, far) < energy) return far;
  for (int i = 0; i < 20; ++i) {
    const Seconds middle = (near + far) * 0.5;
    (bound_at(data, middle) < energy ? near : far) = middle;
  }
  return near;
}

}  // namespace

// A search weighs energy as if the pipeline waited until the deadline, and the relaxation needs
// least by T*. With many clocks that is as good as it gets. Where they are few, a plan that ends
// sooner may need less, or one that ends after T*.
Plan Frontier::Data::least_energy_by(Seconds deadline, const PlanOptions& options) const {
  constexpr double kFewClocks = 0.003;  // gap of a quick plan
  constexpr double kReach = 0.005;      // where less time is worth a try, nothing is gained
  constexpr int kTries = 16;
  constexpr double kNothingLeft = 1e-9;  // gap: less than any setting would change
  const auto quick = [&](Seconds time) {
    return plan_of(search_freely(time, {.effort = Effort::kQuick}).back());
  };
  // T* counts whole nanoseconds of each instruction, real ones may take a little longer.
  Seconds time = std::min(deadline, least_energy_time + seconds(longest_chain)), other = time;
  Best best(quick(time));
  if (options.effort == Effort::kQuick) return best.plan();
  const Joules energy = best.plan().iteration_energy;
  // No sooner end can need less than the bound here, which falls until T*.
  if (energy <= bound_at(*this, time) * (1 + kNothingLeft)) return best.plan();
  const Seconds slowest = std::max(time, seconds(curve.longest + longest_chain));
  const Seconds from = still_below(*this, energy, time, min_time);
  const Seconds to = still_below(*this, energy, time, std::min(deadline, slowest));
  if (best.plan().gap() > kFewClocks && to - from > kReach * time) {
    for (int i = 0; i <= kTries; ++i) {
      const Seconds tried = i < kTries ? from + (to - from) * (1.0 * i / kTries) : to;
      if (best.offer(quick(tried))) other = tried;
    }
    for (auto& [setting, plan] : one_setting_plans()) {
      if (plan.iteration_time <= deadline) best.offer(std::move(plan));
    }
  }
  const auto search = [&](Seconds until, const PlanOptions& how) {
    bool is_better = false;
    for (const plan::Assignment& found : search_freely(until, how))
      is_better |= best.offer(plan_of(found));
    return is_better;
  };
  if (other != time) {
    // Which of the two is better a quick plan cannot tell.
    search(other, {});
    if (!search(time, {})) time = other;
    if (options.search_windows == 0) return best.plan();
  }
  search(time, options);
  return best.plan();
}

}  // namespace harpe
