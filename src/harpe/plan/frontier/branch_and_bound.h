#pragma once
/// \file
/// Best plans of small pipelines, by branch and bound.
///
/// Instructions get their settings in the order of time. A partial plan is given up when no way to
/// complete it beats the best plan so far. The bound is that of `LateBound`, from where the partial
/// plan stands: with a flow of value F, f_a of it through arc a, every completion that ends at T
/// costs at least
///   cost so far + sum over the arcs to come of min(cost_a + f_a time_a) + sum_v b_v t_v - F T,
/// where t_v is the time at which event v happens in the partial plan, and b_v is the flow that
/// leaves v by arcs to come less the flow that enters it by such arcs. With late settings the
/// minimum is taken over whole lists of stages, by dynamic programming. Of two partial plans with
/// the same settings in force, the one that is neither earlier nor cheaper anywhere is given up,
/// too. Under a power cap an earlier end may be worse, and with a dwell infeasible: there, only
/// partial plans with the same times are compared.
///
/// If a late change outlasts its instruction, the bound counts it for that instruction alone, and
/// what is late at the end of a list counts at its beginning only when the plan is complete. So a
/// complete plan may be worse than the partial plan that others were given up for. Nothing is
/// proven if such a plan would have been the best without that.

#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/plan/frontier/switching.h"

namespace harpe::plan {

/// The plan to find. Times are in picoseconds, costs in `Problem::cost_unit`.
struct BranchTask {
  /// Least cost plus `waiting` times the makespan, among plans that end by `deadline`; or the
  /// shortest makespan, and among these plans the least cost.
  enum class Aim : unsigned char { kLeast, kFastest };
  Aim aim = Aim::kLeast;
  std::int64_t deadline = std::numeric_limits<std::int64_t>::max();
  double waiting = 0;  ///< cost of a picosecond of the iteration
  /// `kFastest` only: the most cost that a plan may have for each picosecond of its makespan.
  double most_power = std::numeric_limits<double>::infinity();
  /// Flows that bounds are made of: one number for each network arc, in `Problem::flow_unit`. Only
  /// the first `kMostFlows` are used.
  static constexpr std::size_t kMostFlows = 6;
  std::vector<std::vector<double>> flows = {};
  std::int64_t most_steps = 0;  ///< number of partial plans to look at
};

struct BranchAnswer {
  PointChoices choices;     ///< empty if no plan was found
  bool is_complete = true;  ///< false if `most_steps` was reached
  bool is_proven = true;    ///< false if not complete, or as said above
};

/// O(most_steps x (events + flows)), and `settings^3` for each instruction and flow if settings are
/// late. Deterministic.
BranchAnswer branch_and_bound(SwitchingSearch& search, const BranchTask& task);

}  // namespace harpe::plan
