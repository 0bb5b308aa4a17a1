#pragma once
/// \file
/// Best plans of small pipelines, by branch and bound.
///
/// Instructions receive their settings in the order of time. A partial plan is pruned if no
/// completion of it beats the best plan so far. The bound is that of `LateBound`, applied to the
/// rest of the pipeline: with a flow of value F and f_a through arc a, every completion that ends
/// at T costs at least
///   cost so far + sum over the remaining arcs of min(cost_a + f_a time_a) + sum_v b_v t_v - F T,
/// where t_v is the time of event v in the partial plan, and b_v is the flow that leaves v by
/// remaining arcs minus the flow that enters it by remaining arcs. With late settings the minimum
/// is over whole lists of stages, by dynamic programming. A partial plan is also pruned if another
/// one with the same settings in force costs no more and has no later event. Under a power cap an
/// earlier end may be worse, and with a dwell it may be infeasible. In these cases, only partial
/// plans with equal times are compared.
///
/// If a late change is longer than its instruction, the bound counts it for that instruction alone.
/// A change that is late at the end of a list counts at its beginning only when the plan is
/// complete. A complete plan may therefore be worse than the partial plan for which others were
/// pruned. The answer is not proven if such a plan would have been the best at its partial cost.

#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/plan/frontier/switching.h"

namespace harpe::plan {

/// The plan to find. Times are in picoseconds, costs in `Problem::cost_unit`.
struct BranchTask {
  /// The aim among plans that end by `deadline`: the least cost plus `waiting` times the makespan;
  /// or the shortest makespan, and the least cost of the plans with this makespan.
  enum class Aim : unsigned char { kLeast, kFastest };
  Aim aim = Aim::kLeast;
  std::int64_t deadline = std::numeric_limits<std::int64_t>::max();
  double waiting = 0;  ///< cost of a picosecond of the iteration
  /// `kFastest` only: the highest cost of a plan per picosecond of its makespan.
  double most_power = std::numeric_limits<double>::infinity();
  /// The flows for the bounds: one number per network arc, in `Problem::flow_unit`. Only the first
  /// `kMostFlows` are used.
  static constexpr std::size_t kMostFlows = 6;
  std::vector<std::vector<double>> flows = {};
  std::int64_t most_steps = 0;  ///< largest number of partial plans to visit
};

struct BranchAnswer {
  PointChoices choices;     ///< empty if no plan was found
  bool is_complete = true;  ///< false if `most_steps` was reached
  bool is_proven = true;    ///< false if not complete, or in the case described above
};

/// Returns the best plan for a task. Takes O(most_steps x (events + flows)), and `settings^3` for
/// each instruction and flow if settings are late. Deterministic.
BranchAnswer branch_and_bound(SwitchingSearch& search, const BranchTask& task);

}  // namespace harpe::plan
