#pragma once
/// \file
/// Tables of the time and energy of computations with late settings (point_costs.h), for searches
/// along the list of a stage.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "harpe/plan/frontier/problem.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// Seconds and joules (effective energy) of every computation at every setting after every other
/// setting. The numbers are not rounded, so they are never above the integers of a plan.
///
/// If a change is longer than its instruction, the tables count it for that instruction alone;
/// `carried` returns its cost for the next instructions. If several settings are old at the same
/// time, only the last one counts here, which is never more than in a plan (point_costs.h).
class LateCosts {
 public:
  /// A value above the cost of every choice.
  static constexpr double kNever = 1e30;

  /// A change of setting that is late in the instructions after it.
  struct Carried {
    std::size_t before = 0, now = 0;  ///< settings of the stage
    double left = 0;                  ///< s: remaining time in which `before` may be in force
  };
  /// Seconds and joules (effective energy) of an instruction.
  struct Taken {
    double time = 0, cost = 0;
  };

  struct Stage {
    std::vector<int> nodes;                    ///< its computations, in order
    std::vector<InstructionSetting> settings;  ///< settings of all its computations, rising
    std::vector<double> latency;               ///< s, per setting
    bool outlasts = false;  ///< true if a change can take longer than its computation
  };
  /// The table of all computations with the same points. Rows are settings before, columns are
  /// settings now.
  struct Table {
    std::size_t settings = 0;
    std::vector<double> time, cost;  ///< `cost` is `kNever` if the setting now is not measured
    std::vector<int> point;          ///< per setting, its point in the profile; -1: not measured
    /// The points that replace each setting while it is old: its own, or its neighbours; -1: none.
    std::vector<std::array<int, 2>> old;
    std::vector<Taken> points;  ///< points of the profile
    double longest = 0;         ///< largest of `time`
    /// The most seconds and joules that a late change adds: for a change to each setting (`into`)
    /// and for a change from each setting to another one (`after`).
    std::vector<double> time_into, cost_into, time_after, cost_after;

    /// Returns the time or cost without a change of setting. The cost is `kNever` if the setting
    /// was not measured.
    double own_time(std::size_t setting) const { return time[setting * (settings + 1)]; }
    double own_cost(std::size_t setting) const { return cost[setting * (settings + 1)]; }
    std::span<const double> times_after(std::size_t before) const {
      return std::span(time).subspan(before * settings, settings);
    }
    std::span<const double> costs_after(std::size_t before) const {
      return std::span(cost).subspan(before * settings, settings);
    }
  };

  LateCosts(const Problem& problem, const LatencyByClock& latency);

  std::span<const Stage> stages() const { return stages_; }
  const Table& table(int node) const { return tables_[problem_.table[node]]; }
  const Problem& problem() const { return problem_; }

  /// Returns true if a change on some stage can take longer than its computation.
  bool outlasts() const { return std::ranges::any_of(stages_, &Stage::outlasts); }
  /// Returns the time and cost of an instruction while a change is late, and advances the change
  /// past the instruction. Requires that its new setting was measured.
  Taken carried(int node, Carried& change) const;
  /// Sets the seconds of all computations of a stage for the given settings of its nodes. A change
  /// that is late at the end of the list is not carried over to its beginning.
  void set_times(const Stage& stage, std::span<const int> setting, std::vector<double>& time) const;

 private:
  void fill(Table& table, const Stage& stage, int node) const;
  void set_latency(Stage& stage, const LatencyByClock& latency) const;
  static void set_most(Table& table);

  const Problem& problem_;
  std::vector<Stage> stages_;
  std::vector<Table> tables_;  // as in the problem; empty for instructions without a choice
};

}  // namespace harpe::plan
