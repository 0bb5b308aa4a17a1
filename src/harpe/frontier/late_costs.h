#pragma once
/// \file
/// What computations take when their setting comes late, see switching.h: as tables, for searches
/// along the list of a stage.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "harpe/frontier/problem.h"
#include "harpe/instruction/setting.h"

namespace harpe {

/// Seconds and joules (effective energy) of every computation at every setting after every other.
/// Rounded nowhere, so that they are never above what a plan counts in integers.
class LateCosts {
 public:
  /// No choice costs as much.
  static constexpr double kNever = 1e30;

  struct Stage {
    std::vector<int> nodes;                    ///< its computations, in order
    std::vector<InstructionSetting> settings;  ///< of all of them, rising
  };
  /// Of all computations with the same points. Rows are settings before, columns settings now.
  struct Table {
    std::size_t settings = 0;
    std::vector<double> time, cost;  ///< `cost` is `kNever` where now is not measured
    std::vector<int> point;          ///< of each setting, in the profile; -1: not measured
    double longest = 0;              ///< of all times
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

 private:
  void fill(Table& table, const Stage& stage, int node, const LatencyByClock& latency) const;
  static void set_most(Table& table);

  const Problem& problem_;
  std::vector<Stage> stages_;
  std::vector<Table> tables_;  // as in the problem; empty where there is no choice
};

/// The least of cost plus price times time over one round of a stage: of its list, whose first
/// computation follows its last. Of each computation, only settings near its best one are tried: no
/// other can be in the best round. O(list x settings^2) in the worst case, and a few times that if
/// the best open list does not end with the setting that it began after.
class LateRound {
 public:
  explicit LateRound(const LateCosts& costs) : costs_(costs) {}

  /// \param price    of a second, W, one a node of the pipeline
  /// \param longest  seconds, one a node: what takes longer is left out
  /// \param setting  of each node of the stage, in its `settings`: the choices (output)
  /// \returns  joules; `LateCosts::kNever` where nothing is left
  double cheapest(int stage, std::span<const double> price, std::span<const double> longest,
                  std::vector<int>& setting);
  /// The same with any setting before the first computation, not that of the last. Returns at most
  /// what `cheapest` returns, and less by at most the cost of one late change.
  /// O(list x settings^2)
  double cheapest_open(int stage, std::span<const double> price, std::span<const double> longest,
                       std::vector<int>& setting);

 private:
  /// Settings of a computation that can be in the best round: from `first` to before `end`.
  struct Range {
    std::size_t first = 0, end = 0;
  };
  Range range_of(const LateCosts::Stage& stage, std::size_t k, std::span<const double> price,
                 std::span<const double> longest) const;
  void set_ranges(const LateCosts::Stage& stage, std::span<const double> price,
                  std::span<const double> longest);
  void run(const LateCosts::Stage& stage, std::span<const double> price,
           std::span<const double> longest);
  /// Runs with any setting before the first; returns the setting of the last that costs least.
  std::size_t run_open(const LateCosts::Stage& stage, std::span<const double> price,
                       std::span<const double> longest);
  /// Returns the cost of the best choices that end with each setting.
  std::span<const double> ends(const LateCosts::Stage& stage) const {
    return std::span(least_).subspan(stage.nodes.size() * stage.settings.size());
  }
  /// Sets the best choices that end with `last`. Returns the setting before the first of them.
  int trace(const LateCosts::Stage& stage, std::span<const double> price,
            std::span<const double> longest, int last, std::vector<int>& setting) const;

  const LateCosts& costs_;
  std::vector<double> least_;  // after so many computations, at each setting
  std::vector<Range> ranges_;  // of each computation
};

}  // namespace harpe
