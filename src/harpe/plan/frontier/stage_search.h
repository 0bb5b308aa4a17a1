#pragma once
/// \file
/// Plans whose settings come late, stage by stage.
///
/// A move holds the rest of the pipeline at some times that it may have, which leaves a time window
/// to every instruction of one stage, and finds settings for some of these by dynamic programming
/// over settings and time: labels as in shortest paths with time windows (Desrochers and Soumis
/// 1988), of which a few are kept a setting, evenly over the time that is left. Only settings near
/// those that the part has take part. Moves that cost a little are accepted, too, less and less so
/// (threshold accepting: Dueck and Scheuer 1990). As a setting is kept or changed for a whole run
/// of instructions at once, this gets past what changing one run at a time
/// (`SwitchingSearch::improve`) does not.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/late_round.h"
#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Choices, when they end (picoseconds) and what they cost (`Problem::cost_unit`).
struct TimedChoices {
  PointChoices choices;
  std::int64_t end = 0, cost = 0;
};

/// Deterministic: the same calls give the same plans. Refers to what it is made of.
class StageSearch {
 public:
  StageSearch(const SearchOrder& layout, const LateCosts& costs, const PointCosts& point_costs);

  TimedChoices timed(PointChoices choices);

  /// Returns the cheapest choices of every stage on its own when seconds are worth `share` of their
  /// price. They may end at any time. Empty if some stage has none within `longest`, so that none
  /// end by the deadline.
  /// \param price    of a second of each node, W, see `LateBound::prices`
  /// \param longest  see `LateBound::longest`
  PointChoices at_prices(std::span<const double> price, double share,
                         std::span<const double> longest);

  /// Joins two plans so that the whole ends by the deadline, which must lie between their ends: the
  /// fast plan holds at the beginning, at the end, at both, or in the middle, for as short as
  /// possible. Returns the cheapest of the four. O(arcs)
  TimedChoices splice(const TimedChoices& fast, const TimedChoices& slow, std::int64_t deadline);

  /// Called before each move with the best plan so far, of which `choices` are not set; returns
  /// false to end.
  using GoOn = std::function<bool(const TimedChoices&)>;
  /// Makes choices that end by the deadline cheaper in so many moves.
  /// \param tolerance  what the first of them may cost, in `Problem::cost_unit`
  void improve(TimedChoices& plan, std::int64_t deadline, std::span<const double> price, int moves,
               double tolerance, const GoOn& go_on = {});

 private:
  struct Label {
    double time = 0, cost = 0;
    int from = -1;  ///< label of the instruction before
  };
  /// Instructions `first` to `last` of the list of a stage, of which the latter may be one more
  /// than gets a new setting.
  struct Part {
    int stage = 0;
    int first = 0, last = 0;
    int setting_before = 0;
    int setting_last = -1;  ///< which the last keeps; -1: any
    double share = 0;       ///< of the price of its time that counts as cost
  };
  struct Neighbour {
    int node;
    double lag;  ///< s
  };
  struct Window {
    double from = 0, to = 0;  ///< s
  };
  /// Setting, time and cost of a node, to restore them.
  struct Taken {
    int node;
    int setting;
    std::int64_t time, cost;
  };

  const std::vector<int>& nodes_of(const Part& part) const {
    return costs_.stages()[part.stage].nodes;
  }
  void load(const PointChoices& choices);
  PointChoices choices() const;
  void take(int stage, int position);
  void take_stage(int stage);
  void set_taken(int node, const PointCosts::Choice& choice, const LateChange& late);
  std::int64_t end();
  void set_latest(std::int64_t deadline);
  void hold();
  double held(std::int32_t event) const;
  Part choose_part();
  void allow(const Part& part);
  std::vector<Window> windows_of(const Part& part, std::int64_t deadline) const;
  bool solve(const Part& part, std::int64_t deadline, std::span<const double> price);
  bool extend(const Part& part, int position, const Window& window, double room, double price);
  std::int64_t apply(const Part& part);
  void undo();
  double fastest(int node) const;

  const SearchOrder& layout_;
  const LateCosts& costs_;
  const Problem& problem_;
  const PointCosts& point_costs_;
  LateRound round_;
  SearchRandom random_;
  std::vector<std::vector<Neighbour>> before_, after_;  // of each node, on other stages
  std::vector<std::vector<int>> setting_of_;            // of each table and point
  std::vector<std::vector<int>> number_of_;  // setting of a stage -> setting of `switching_`
  // State of the plan that moves change.
  std::vector<int> setting_;                    // of each node, among those of its stage
  std::vector<std::int64_t> time_, node_cost_;  // of each node
  std::int64_t cost_ = 0;
  // Scratch of `take_stage`, of each node.
  PointChoices point_;
  std::vector<LateChange> changes_;
  EventTimes earliest_, latest_, delayed_;
  bool is_delayed_ = false;  // events are held at `delayed_`
  double late_ = 0;          // else that far from the earliest to the latest
  std::vector<int> allowed_;
  std::vector<std::vector<Label>> labels_;
  std::vector<int> found_;  // settings of the part
  std::vector<Taken> undo_;
};

}  // namespace harpe::plan
