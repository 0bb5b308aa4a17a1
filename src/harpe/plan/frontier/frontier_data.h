#pragma once
/// \file
/// The data of a `Frontier`. Only for `.cc` files.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/frontier/branch_and_bound.h"
#include "harpe/plan/frontier/find_plan.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/late_bound.h"
#include "harpe/plan/frontier/point_costs.h"
#include "harpe/plan/frontier/problem.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {
class LateFrontier;
struct TimedChoices;
}  // namespace harpe::plan

namespace harpe {

/// Returns a time in seconds as text for a deadline, rounded up to microseconds.
std::string rounded_up(Seconds time);

/// Returns the sum of the effective energies of a plan's instructions, per GPU.
Joules effective_energy(const Plan& plan);

struct Frontier::Data {
  explicit Data(plan::Problem p);
  Data(const Data&) = delete;
  ~Data();

  /// Returns the sum of effective energies, per GPU, of the relaxed optimum at an iteration time.
  Joules effective(Seconds time) const;
  /// Returns `time` as a horizon of the network, minus the largest sum of rounding errors.
  std::int64_t horizon(Seconds time) const;
  /// Returns the relaxed optimum at this horizon.
  plan::flow::State relaxed(Seconds time) const;
  /// Returns half the ratio of the second to the first derivative of the relaxed cost at `time`,
  /// per picosecond.
  double curvature(Seconds time) const;
  /// Returns the plan with these operating points, one per pipeline node.
  Plan plan_of(const std::vector<OperatingPoint>& points,
               const std::vector<plan::LateChange>& late = {}) const;
  Plan plan_of(const plan::Assignment& assignment) const;
  /// Returns a bound for late clocks, with the best flow found in a fraction of a plan's time.
  plan::LateBound climbed_bound(const plan::LateCosts& costs, Seconds deadline,
                                int most_steps = kMostClimbingSteps) const;
  static constexpr int kMostClimbingSteps = 200;
  /// Returns assignments for free switching. The last one has the least energy found of an
  /// iteration that waits until the deadline. The long search, if any, started from the first.
  std::vector<plan::Assignment> search_freely(Seconds deadline, const PlanOptions& options) const;
  /// Returns the plan of least energy found that ends by the deadline and does not wait for it.
  Plan least_energy_by(Seconds deadline, const PlanOptions& options) const;
  /// Does the same with late clocks or a dwell.
  Result<Plan> least_switching_by(Seconds deadline, const PlanOptions& options) const;
  /// Returns a plan that ends by a deadline, with little effort, for searches of many deadlines.
  Result<Plan> glance(Seconds deadline, const PlanOptions& options) const;
  /// See `Frontier::one_setting`.
  std::vector<std::pair<InstructionSetting, Plan>> one_setting_plans() const;
  Result<Plan> search(Seconds deadline, const PlanOptions& options) const;
  Result<Plan> search_switching(std::optional<Seconds> deadline, const PlanOptions& options) const;
  /// Does the same under a minimum dwell.
  Result<Plan> search_dwelling(std::optional<Seconds> deadline, const PlanOptions& options) const;
  /// Returns the set of plans for late settings. Finds it at the first call for these options.
  const plan::LateFrontier& late(const PlanOptions& options) const;
  /// Finds choices that end by a deadline (picoseconds) in the set of plans.
  using FindLate =
      std::function<plan::TimedChoices(const plan::LateFrontier& plans, std::int64_t deadline)>;
  /// Returns the plan that `find` finds, or an error if no plan ends by the deadline.
  Result<Plan> late_plan(Seconds deadline, const PlanOptions& options, const FindLate& find) const;
  Error no_plan_by(std::optional<Seconds> deadline, const PlanOptions& options,
                   std::int64_t fastest) const;
  /// Returns the fastest plan found whose GPUs together draw at most `cap`. The search starts at
  /// the time `first`.
  Result<Plan> search_under_cap(Watts cap, Seconds first, const PlanOptions& options) const;
  /// Returns true if branch and bound replaces the searches, see branch_and_bound.h.
  bool is_small() const;
  /// A search for a plan with the effort of its options.
  using PlanSearch = std::function<Result<Plan>(const PlanOptions&)>;
  /// Returns the plan of least energy of a small pipeline that ends by the deadline, and waits
  /// until then if `waits`. If trying all plans takes too long, returns the better of the best plan
  /// so far and the plan that `search` finds.
  Result<Plan> least_of_small(const PlanSearch& search, Seconds deadline, bool waits,
                              const PlanOptions& options) const;
  /// Returns the fastest plan of a small pipeline within a power cap, and the cheapest of several.
  /// \param near  estimate of its end
  Result<Plan> fastest_of_small(const PlanSearch& search, std::optional<Watts> most_power,
                                Seconds near, const PlanOptions& options) const;
  Result<Plan> best_of_small(const PlanSearch& search, plan::BranchTask task,
                             const PlanOptions& options) const;
  /// Returns true if stepping to further relaxed optima takes too long.
  bool is_large() const;
  std::int64_t picoseconds(Seconds deadline) const;
  void set_iteration_time(Plan& plan, Seconds time) const;
  Seconds seconds(std::int64_t horizon) const {
    return Seconds{static_cast<double>(horizon) * 1e-9};
  }

  plan::Problem problem;
  plan::SearchOrder layout;
  plan::flow::CostCurve curve;
  std::vector<plan::Milestone> milestones;  ///< from the fastest to the slowest plan
  std::vector<Joules> cost_at;  ///< for each breakpoint, effective energy above the least
  Joules least_effective;
  Seconds min_time;
  Seconds least_energy_time;
  std::int64_t longest_chain = 0;  ///< number of instructions on the longest path

  /// The set of plans for one latency and effort.
  struct Late;
  /// A linked list that only grows, because rooms of the core use no locks.
  mutable std::atomic<std::shared_ptr<const Late>> late_frontiers;
};

}  // namespace harpe
