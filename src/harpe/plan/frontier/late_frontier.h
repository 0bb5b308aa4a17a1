#pragma once
/// \file
/// Plans along the frontier of settings that come late, found together.
///
/// All questions about late settings are answered from one set of plans, each at the time it takes
/// by itself: what one search finds serves every deadline. The set begins with steady plans
/// (steady_plans.h), with plans that are cheapest at the prices of the bound, and with plans for
/// free switching. Then deadlines are visited from slow to fast and back. At each of them the
/// cheapest plan of the set, or two neighbours on the lower hull of the set joined at some moment
/// (`StageSearch::splice`), is made cheaper by moves and joins the set.
///
/// Bounds. The flow that was found for one deadline bounds every other one, too, by a straight line
/// (weak duality), so that ten flows bound the whole frontier.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harpe/plan/frontier/frontier_data.h"
#include "harpe/plan/frontier/late_bound.h"
#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/stage_search.h"
#include "harpe/plan/frontier/switching.h"

namespace harpe::plan {

/// Immutable once made; its functions may be called at once from several threads. Deterministic.
/// Refers to the frontier that it is of. All times in picoseconds.
class LateFrontier {
 public:
  /// Takes about as long as three plans for free switching of full effort; with `kQuick` a quarter.
  LateFrontier(const Frontier::Data& data, const LatencyByClock& latency, Effort effort);

  /// The effort of a search for one deadline, in moves of `StageSearch`.
  struct Search {
    int moves = 0;
    /// Called now and then with the moves tried and the least cost; returns false to end.
    std::function<bool(std::int64_t moves, std::int64_t cost)> go_on = {};
    std::int64_t moves_on = 0;  ///< after `moves`, while `go_on` returns true
  };
  /// Returns the effort for a single question, such as `Frontier::plan`.
  Search full() const;
  /// Returns the effort for one of many deadlines along the frontier.
  Search glance() const;

  /// Returns the shortest time of a plan in the set.
  std::int64_t fastest() const { return plans_.front().end; }
  /// Returns the plan of least cost found that ends by the deadline, whatever the pipeline draws
  /// while it waits. Requires a deadline of at least `fastest()`.
  TimedChoices cheapest_by(std::int64_t deadline, const Search& search) const;
  /// Returns the plan of least iteration energy found that ends by the deadline. Requires a
  /// deadline of at least `fastest()`.
  TimedChoices least_energy_by(std::int64_t deadline, const Search& search) const;

  /// Returns a lower bound of the effective energy, per GPU, of all plans that end by the deadline.
  Joules bound(std::int64_t deadline) const;

  const PointCosts& point_costs() const { return point_costs_; }

 private:
  /// The flow found for a deadline.
  struct Bound {
    std::int64_t deadline = 0;
    std::vector<double> price;  ///< of a second of each node, W
    Watts value;
    Joules by_deadline;  ///< what the flow proves of plans that end by the deadline
    Joules of_any;       ///< the same without leaving out choices as too long
  };

  void add(TimedChoices plan);
  void add_simple(StageSearch& stages);
  void add_at_prices(StageSearch& stages, const LateBound& bound, std::int64_t deadline);
  void add_free(StageSearch& stages, std::int64_t deadline);
  void add_bound(const LateBound& bound, std::int64_t deadline);
  void improve_corners(StageSearch& stages, int moves);
  std::span<const double> price_at(std::int64_t deadline) const;
  std::vector<std::size_t> hull() const;
  TimedChoices joined(StageSearch& stages, std::int64_t deadline) const;
  Joules energy(const TimedChoices& plan) const;
  double tolerance() const;

  const Frontier::Data& data_;
  PointCosts point_costs_;
  SwitchingSearch switching_;
  LateCosts costs_;
  std::vector<TimedChoices> plans_;  ///< of which none beats another, fastest first
  std::int64_t least_energy_end_ = 0;
  std::vector<Bound> bounds_;  ///< by rising deadline
};

}  // namespace harpe::plan
