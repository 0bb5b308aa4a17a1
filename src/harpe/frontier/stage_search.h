#pragma once
/// \file
/// Plans whose settings come late, stage by stage.
///
/// A move holds the rest of the pipeline at some times that it may have, which leaves a time window
/// to every instruction of one stage, and finds settings for all or some of these by dynamic
/// programming over settings and time: labels as in shortest paths with time windows (Desrochers
/// and Soumis 1988), of which a few are kept a setting, evenly over the time that is left. Moves
/// that cost a little are accepted, too, less and less so (threshold accepting: Dueck and Scheuer
/// 1990). As a setting is kept or changed for a whole run of instructions at once, this gets past
/// what changing one run at a time (`SwitchingSearch::improve`) does not.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "harpe/frontier/late_costs.h"
#include "harpe/frontier/switching.h"

namespace harpe {

/// Deterministic. Refers to what it is made of.
class StageSearch {
 public:
  /// \param price     of a second of each node, W, see `LateBound::prices`
  /// \param deadline  picoseconds
  StageSearch(const SearchOrder& layout, const LateCosts& costs, SwitchingSearch& switching,
              std::span<const double> price, std::int64_t deadline);

  /// The cheapest choices of every stage on its own when seconds are worth `share` of their price.
  /// They may end at any time. Empty if some stage has none within `longest`, so that none end by
  /// the deadline.
  /// \param longest  see `LateBound::longest`
  PointChoices at_prices(double share, std::span<const double> longest);

  /// Makes choices that end by the deadline cheaper in so many moves.
  /// \param tolerance  what the first of them may cost, in `Problem::cost_unit`
  void improve(PointChoices& choices, int moves, double tolerance);

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

  /// Times of all events at which the pipeline may be, in one of four manners.
  void scatter(const PointChoices& choices);
  Part choose_part(const std::vector<int>& settings);
  std::vector<Window> windows_of(const Part& part) const;
  bool solve(const Part& part, std::vector<int>& settings);
  bool extend(const Part& part, int position, const Window& window, double room);
  std::vector<int> settings_of(const PointChoices& choices) const;
  PointChoices choices_of(const std::vector<int>& settings) const;
  double fastest(int node) const;

  const SearchOrder& layout_;
  const LateCosts& costs_;
  const Problem& problem_;
  SwitchingSearch& switching_;
  std::span<const double> price_;
  std::int64_t deadline_;
  SearchRandom random_;
  LateRound round_;
  std::vector<std::vector<Neighbour>> before_, after_;  // of each node, on other stages
  std::vector<std::vector<int>> setting_of_;            // of each table and point
  EventTimes earliest_, latest_;
  std::vector<double> event_;  // s
  std::vector<std::vector<Label>> labels_;
};

}  // namespace harpe
