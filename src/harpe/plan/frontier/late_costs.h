#pragma once
/// \file
/// Tables of the time and energy of computations whose setting comes late (point_costs.h), for
/// searches along the list of a stage.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "harpe/plan/frontier/problem.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// Seconds and joules (effective energy) of every computation at every setting after every other.
/// Rounded nowhere, so that they are never above what a plan counts in integers.
///
/// If a change outlasts its instruction, tables count it for that instruction alone; `carried` says
/// what it costs those after it. Of several settings that are old at once only the last one counts
/// here, which is never more than what a plan counts (point_costs.h).
class LateCosts {
 public:
  /// No choice costs as much.
  static constexpr double kNever = 1e30;

  /// A change of setting that is late in the instructions after it.
  struct Carried {
    std::size_t before = 0, now = 0;  ///< settings of the stage
    double left = 0;                  ///< s: for how long the one before may still be in force
  };
  /// Seconds and joules (effective energy) of an instruction.
  struct Taken {
    double time = 0, cost = 0;
  };

  struct Stage {
    std::vector<int> nodes;                    ///< its computations, in order
    std::vector<InstructionSetting> settings;  ///< of all of them, rising
    std::vector<double> latency;               ///< of each setting, s
    bool outlasts = false;  ///< true if a change can outlast the computation it was asked for
  };
  /// Of all computations with the same points. Rows are settings before, columns settings now.
  struct Table {
    std::size_t settings = 0;
    std::vector<double> time, cost;  ///< `cost` is `kNever` where now is not measured
    std::vector<int> point;          ///< of each setting, in the profile; -1: not measured
    /// Points that stand for each setting while it is old: its own, or its neighbours; -1: none.
    std::vector<std::array<int, 2>> old;
    std::vector<Taken> points;  ///< of the profile
    double longest = 0;         ///< of all times
    /// The most that a late change adds, seconds and joules: of each setting, a change to it
    /// (`into`) and a change from it to another one (`after`).
    std::vector<double> time_into, cost_into, time_after, cost_after;

    /// Time and cost without a change of setting. The cost is `kNever` if the setting was not
    /// measured.
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

  /// True if a change on some stage can outlast the computation it was asked for.
  bool outlasts() const { return std::ranges::any_of(stages_, &Stage::outlasts); }
  /// Returns what an instruction takes and costs while a change is late, and takes the change past
  /// it. Requires that its new setting was measured.
  Taken carried(int node, Carried& change) const;
  /// Sets the seconds of all computations of a stage, by the settings of its nodes. What is late at
  /// the end of the list counts at its beginning for the first instruction alone.
  void set_times(const Stage& stage, std::span<const int> setting, std::vector<double>& time) const;

 private:
  void fill(Table& table, const Stage& stage, int node) const;
  void set_latency(Stage& stage, const LatencyByClock& latency) const;
  static void set_most(Table& table);

  const Problem& problem_;
  std::vector<Stage> stages_;
  std::vector<Table> tables_;  // as in the problem; empty where there is no choice
};

}  // namespace harpe::plan
