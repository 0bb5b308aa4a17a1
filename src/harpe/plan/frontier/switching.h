#pragma once
/// \file
/// Searches for plans with late changes of settings (point_costs.h) and a minimum dwell.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Local search for choices under late changes of settings and a minimum dwell. Deterministic.
class SwitchingSearch {
 public:
  /// \param costs  must outlive the search
  explicit SwitchingSearch(const PointCosts& costs, Seconds min_dwell = Seconds{0});

  const PointCosts& costs() const { return costs_; }
  bool has_dwell() const { return min_dwell_ > 0; }
  std::int64_t min_dwell() const { return min_dwell_; }  ///< picoseconds
  /// Returns true if settings are never late and have no minimum dwell.
  bool is_free() const { return !has_dwell() && costs_.is_free(); }

  /// Returns the makespan (picoseconds), late changes included; negative if a stage changes its
  /// setting twice within the minimum dwell.
  std::int64_t makespan(const PointChoices& choices);

  /// Sets the instructions of each stage in turn, except some of the first and the last, to the one
  /// setting with which the plan ends by `deadline` at the least cost. Repeats this while the cost
  /// falls.
  void settle(PointChoices& choices, std::int64_t deadline);

  /// Extends a late setting that delays the end past `deadline` to the instruction before. Repeats
  /// this until the plan ends by `deadline`, nothing changes, or 100 passes are over.
  void repair(PointChoices& choices, std::int64_t deadline);

  // Both try `moves` moves. A move gives one setting to a run of instructions of a stage.
  /// Shortens the makespan.
  void shorten(PointChoices& choices, int moves);
  /// Reduces the cost plus `price` for every picosecond after `deadline`.
  void improve(PointChoices& choices, std::int64_t deadline, double price, int moves);

 private:
  template <class Accept>
  void search(PointChoices& choices, int moves, const Accept& accept);

  const PointCosts& costs_;
  const SearchOrder& layout_;
  const Problem& problem_;
  std::int64_t min_dwell_;
  std::vector<std::int64_t> start_, latest_;  // time of each event
};

/// A task for a `SwitchingSearch` under a minimum dwell. All times are in picoseconds.
struct SwitchingTask {
  std::optional<std::int64_t> deadline;  ///< nullopt: search for the fastest choices
  int moves = 0;                         ///< number of moves of each local search
  bool thorough = true;
  std::int64_t min_time = 0;  ///< shortest time under free switching
  /// Returns a good assignment under free switching that ends by a time.
  std::function<Assignment(std::int64_t end)> free_plan;
  /// Returns the price of a picosecond at a deadline, in cost units.
  std::function<double(std::int64_t end)> price;
};

struct SwitchingAnswer {
  PointChoices choices;       ///< empty if none were found
  std::int64_t fastest = -1;  ///< shortest makespan during the search; -1 if none is feasible
};

/// Returns the cheapest choices found under a minimum dwell. Searches from simple choices and from
/// plans for free switching.
SwitchingAnswer find_choices(SwitchingSearch& search, const SwitchingTask& task);

}  // namespace harpe::plan
