#include <algorithm>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {
namespace {

/// The plan of least energy so far.
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

/// Returns a lower bound of the energy of an iteration that waits until `time`.
Joules bound_at(const Frontier::Data& data, Seconds time) {
  const Joules waiting = data.problem.total_blocking_power() * time;
  return (data.effective(time) + waiting) * data.problem.gpus_per_stage;
}

/// Returns the time nearest to `far` up to which the bound, from `near` on, is below `energy`.
Seconds still_below(const Frontier::Data& data, Joules energy, Seconds near, Seconds far) {
  if (bound_at(data, far) < energy) return far;
  for (int i = 0; i < 20; ++i) {
    const Seconds middle = (near + far) * 0.5;
    (bound_at(data, middle) < energy ? near : far) = middle;
  }
  return near;
}

}  // namespace

// A search counts energy as if the pipeline waited until the deadline, and the relaxation needs
// least energy at T*. With many clocks, the plan for T* is nearly optimal. With few clocks, a plan
// that ends before T* or after it may need less.
Plan Frontier::Data::least_energy_by(Seconds deadline, const PlanOptions& options) const {
  constexpr double kFewClocks = 0.003;  // gap of a quick plan
  constexpr double kReach = 0.005;      // a shorter range of times gains nothing
  constexpr int kTries = 16;
  constexpr double kNothingLeft = 1e-9;  // gap: below the effect of any setting
  const auto quick = [&](Seconds time) {
    return plan_of(search_freely(time, {.effort = Effort::kQuick}).back());
  };
  // T* is computed in whole nanoseconds per instruction; real ones may take a little longer.
  Seconds time = std::min(deadline, least_energy_time + seconds(longest_chain)), other = time;
  Best best(quick(time));
  if (options.effort == Effort::kQuick) return best.plan();
  const Joules energy = best.plan().iteration_energy;
  // No plan that ends earlier needs less than the bound here, which falls until T*.
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
    // Quick plans do not show which of the two times is better.
    search(other, {});
    if (!search(time, {})) time = other;
    if (options.search_windows == 0) return best.plan();
  }
  search(time, options);
  return best.plan();
}

}  // namespace harpe
