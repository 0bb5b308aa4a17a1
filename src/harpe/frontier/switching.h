#pragma once
/// \file
/// Plans that know how long a clock takes to change.
///
/// A new clock is asked for when its instruction begins, and until it is in force the old one still
/// runs. If that takes L, a share w = min(1, L / t_old) of the instruction runs at the old clock,
/// so that it takes w t_old + (1 - w) t_new, and energy likewise. A plan must hold whenever in [0,
/// L] the clock changes, so that late changes may cost time or energy here but never gain any. An
/// iteration repeats: what comes before its first instruction is its last.

#include <vector>

#include "harpe/frontier/plan_search.h"

namespace harpe {

/// What one late change costs beyond the instruction itself.
struct LateChange {
  std::int64_t time = 0;  ///< picoseconds
  std::int64_t cost = 0;  ///< effective energy, in `Problem::cost_unit`
};

/// Searches assignments under late clock changes. Deterministic.
class SwitchingSearch {
 public:
  SwitchingSearch(const PlanLayout& layout, Seconds latency, Seconds min_dwell);

  /// The makespan (picoseconds) of an assignment, late changes included; negative where a stage
  /// changes its clock twice within the minimum dwell.
  std::int64_t makespan(const Assignment& assignment);
  /// Effective energy of an assignment, late changes included.
  std::int64_t cost(const Assignment& assignment) const;
  /// The late change ahead of every pipeline node.
  std::vector<LateChange> changes(const Assignment& assignment) const;

  /// Every stage at one clock, each at that of its least total time: the fastest that is known to
  /// need no change. Empty if a stage has no clock at which all its instructions were measured.
  Assignment steady() const;

  /// Improves an assignment that ends by `deadline` with moves that give a run of instructions of
  /// one stage one clock.
  void improve(Assignment& assignment, std::int64_t deadline, int moves);

 private:
  LateChange change(int node, int choice, int clock_before) const;
  int clock(int node, int choice) const;
  int choice_at(int node, int clock) const;
  bool is_computation(int node) const { return computation_[node]; }

  const PlanLayout& layout_;
  const Problem& problem_;
  Seconds latency_;
  std::int64_t min_dwell_;
  std::vector<char> computation_;              // of each pipeline node: whether it has a clock
  std::vector<std::vector<int>> stage_nodes_;  // computations of each stage, in order
  std::vector<std::int64_t> start_;            // of each event
};

}  // namespace harpe
