#pragma once
/// \file
/// Searches for plans that know how long a setting takes to change, see point_costs.h.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Searches choices under late changes of settings and a minimum dwell. Deterministic.
class SwitchingSearch {
 public:
  /// \param costs  must outlive the search
  explicit SwitchingSearch(const PointCosts& costs, Seconds min_dwell = Seconds{0});

  const PointCosts& costs() const { return costs_; }
  bool has_dwell() const { return min_dwell_ > 0; }
  std::int64_t min_dwell() const { return min_dwell_; }  ///< picoseconds
  /// True if settings are never late and need not dwell.
  bool is_free() const { return !has_dwell() && costs_.is_free(); }

  /// The makespan (picoseconds), late changes included; negative where a stage changes its
  /// setting twice within the minimum dwell.
  std::int64_t makespan(const PointChoices& choices);

  /// Gives each stage in turn one setting, except some of its first and last instructions: the
  /// setting with which the plan costs least and ends by `deadline`. Repeats this while the cost
  /// falls.
  void settle(PointChoices& choices, std::int64_t deadline);

  /// If a setting that comes late delays the end past `deadline`, also gives it to the instruction
  /// before. Repeats this until the plan ends by `deadline` or nothing changes.
  void repair(PointChoices& choices, std::int64_t deadline);

  // Both try `moves` moves, each of which gives one setting to a run of instructions of a stage.
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
  std::vector<std::int64_t> start_, latest_;  // of each event
};

/// A question to a `SwitchingSearch` under a minimum dwell. All times are in picoseconds.
struct SwitchingTask {
  std::optional<std::int64_t> deadline;  ///< without one, the fastest
  int moves = 0;                         ///< of each local search
  bool thorough = true;
  std::int64_t min_time = 0;  ///< under free switching
  /// Returns a good assignment under free switching that ends by a time.
  std::function<Assignment(std::int64_t end)> free_plan;
  /// Returns the price of a picosecond at that time, in cost units.
  std::function<double(std::int64_t end)> price;
};

struct SwitchingAnswer {
  PointChoices choices;       ///< empty when none was found
  std::int64_t fastest = -1;  ///< the shortest makespan on the way, if any
};

/// Returns the cheapest choices found under a minimum dwell. Searches from simple choices and from
/// plans for free switching.
SwitchingAnswer find_choices(SwitchingSearch& search, const SwitchingTask& task);

}  // namespace harpe::plan
