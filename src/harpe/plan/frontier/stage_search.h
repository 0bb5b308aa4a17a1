#pragma once
/// \file
/// Local search for plans with late settings, stage by stage.
///
/// A move fixes the rest of the pipeline at feasible times, which leaves a time window for every
/// instruction of one stage. It then finds settings for some of these instructions by dynamic
/// programming over settings and time, with labels as in shortest paths with time windows
/// (Desrochers and Soumis 1988). It keeps a few labels per setting, spread evenly over the
/// remaining time, and considers only settings near the present ones and a random one. Moves that
/// raise the cost a little are accepted, too, with a threshold that falls (threshold accepting:
/// Dueck and Scheuer 1990). Because a move may change several runs of instructions at once, the
/// search leaves local optima of `SwitchingSearch::improve`, which changes one run at a time.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/late_round.h"
#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Choices with their end (picoseconds) and their cost (`Problem::cost_unit`).
struct TimedChoices {
  PointChoices choices;
  std::int64_t end = 0, cost = 0;
};

/// The search. Deterministic: the same calls give the same plans. Holds references to the arguments
/// of its constructor.
class StageSearch {
 public:
  StageSearch(const SearchOrder& layout, const LateCosts& costs, const PointCosts& point_costs);

  TimedChoices timed(PointChoices choices);

  /// Returns the cheapest choices of each stage by itself if a second costs `share` of its price.
  /// They may end at any time. Empty if a stage has no choices within `longest`, in which case no
  /// choices end by the deadline.
  /// \param price    price of a second of each node, W, see `LateBound::prices`
  /// \param longest  see `LateBound::longest`
  PointChoices at_prices(std::span<const double> price, double share,
                         std::span<const double> longest);

  /// Joins two plans so that the result ends by the deadline, which must lie between their ends.
  /// The fast plan is used at the beginning, at the end, at both, or in the middle, for the
  /// shortest possible part of the iteration. Returns the cheapest of the four. O(arcs)
  TimedChoices splice(const TimedChoices& fast, const TimedChoices& slow, std::int64_t deadline);

  /// Called before each move with the end and the cost of the best plan so far; its `choices` are
  /// not updated. Returns false to end the search.
  using GoOn = std::function<bool(const TimedChoices&)>;
  /// Lowers the cost of choices that end by the deadline with up to `moves` moves.
  /// \param tolerance  highest cost increase of a first move, in `Problem::cost_unit`
  void improve(TimedChoices& plan, std::int64_t deadline, std::span<const double> price, int moves,
               double tolerance, const GoOn& go_on = {});

 private:
  struct Label {
    double time = 0, cost = 0;
    int from = -1;  ///< label of the previous instruction
  };
  /// Instructions `first` to `last` of the list of a stage. The last one may be included only for
  /// its late change and keep its setting.
  struct Part {
    int stage = 0;
    int first = 0, last = 0;
    int setting_before = 0;
    int setting_last = -1;  ///< setting that the last instruction must have; -1 for any
    double share = 0;       ///< share of the price of its time that is added to its cost
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
  std::vector<std::vector<Neighbour>> before_, after_;  // per node, beyond its stage's list
  std::vector<std::vector<int>> setting_of_;            // for each table and point
  std::vector<std::vector<int>> number_of_;  // setting of a stage -> setting of `point_costs_`
  // State of the plan that moves change.
  std::vector<int> setting_;                    // per node, an index in the settings of its stage
  std::vector<std::int64_t> time_, node_cost_;  // per node
  std::int64_t cost_ = 0;
  // Scratch of `take_stage`, per node.
  PointChoices point_;
  std::vector<LateChange> changes_;
  EventTimes earliest_, latest_, delayed_;
  bool is_delayed_ = false;  // true if events are fixed at `delayed_`
  double late_ = 0;          // else their position between earliest (0) and latest (1)
  std::vector<int> allowed_;
  std::vector<std::vector<Label>> labels_;
  std::vector<int> found_;  // new settings of the part
  std::vector<Taken> undo_;
};

}  // namespace harpe::plan
