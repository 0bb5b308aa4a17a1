#pragma once
/// \file
/// Plans along the frontier with late settings, found together.
///
/// All requests with late settings are answered from one set of plans, each with its own makespan,
/// so that every search contributes to every deadline. The set begins with steady plans
/// (steady_plans.h), plans that are cheapest at the prices of the bound, and plans for free
/// switching. Then the construction visits deadlines from slow to fast and back. At each deadline
/// it starts from the cheapest plan of the set or from two neighbours on the lower hull of the set,
/// joined at some time (`StageSearch::splice`), lowers the cost by moves, and adds the result.
///
/// Bounds. The flow for one deadline also proves a bound for every other deadline, by a straight
/// line (weak duality), so that ten flows bound the whole frontier.

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

/// The set of plans. Deterministic. Immutable after construction; several threads may call its
/// functions concurrently. Holds a reference to the frontier's data. All times are in picoseconds.
class LateFrontier {
 public:
  /// Takes about as long as three searches of full effort for free switching; with `kQuick` a
  /// quarter of that.
  LateFrontier(const Frontier::Data& data, const LatencyByClock& latency, Effort effort);

  /// The effort of a search for one deadline, in moves of `StageSearch`.
  struct Search {
    int moves = 0;
    /// Called from time to time with the moves tried and the least cost. Returns false to end.
    std::function<bool(std::int64_t moves, std::int64_t cost)> go_on = {};
    std::int64_t moves_on = 0;  ///< moves after `moves`, while `go_on` returns true
  };
  /// Returns the effort for a single request, such as `Frontier::plan`.
  Search full() const;
  /// Returns the effort for one of many deadlines along the frontier.
  Search glance() const;

  /// Returns the shortest time of a plan in the set.
  std::int64_t fastest() const { return plans_.front().end; }
  /// Returns the plan of least cost found that ends by the deadline, without the energy of waiting.
  /// Requires a deadline of at least `fastest()`.
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
    std::vector<double> price;  ///< price of a second of each node, W
    Watts value;
    Joules by_deadline;  ///< bound that the flow proves for plans that end by the deadline
    Joules of_any;       ///< bound that the flow proves if no choices are left out
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
  std::vector<TimedChoices> plans_;  ///< Pareto-optimal, fastest first
  std::int64_t least_energy_end_ = 0;
  std::vector<Bound> bounds_;  ///< by rising deadline
};

}  // namespace harpe::plan
