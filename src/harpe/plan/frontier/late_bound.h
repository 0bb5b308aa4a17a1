#pragma once
/// \file
/// A lower bound for plans with late settings.
///
/// Weak duality, as in `Certificate`: with a flow of value F through the network, f_i through
/// instruction i and g_d through dependency d, every plan that ends by T needs at least
///   sum_i (cost_i + f_i time_i) + sum_d g_d lag_d - F T
/// of effective energy. With late settings, cost and time of an instruction depend on its setting
/// and on the setting before it. For a given flow, the lists of the stages are independent of each
/// other, and dynamic programming finds the least sum of each list (`LateRound`). Every flow proves
/// a bound. A good flow is found by exponentiated gradient ascent over the paths through the
/// network (Kivinen and Warmuth 1997; over paths Takimoto and Warmuth 2003): paths that take longer
/// than T at the cheapest choices get more flow, shorter paths get less.
///
/// Choices that are too long for any plan to end by T are left out, see `Certificate::longest`.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/late_round.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// The bound at one deadline. Deterministic. Holds references to `layout` and `costs`.
class LateBound {
 public:
  /// \param tolerance  largest sum of rounding errors along the pipeline, picoseconds
  LateBound(const SearchOrder& layout, const LateCosts& costs, Seconds deadline,
            std::int64_t tolerance);

  /// Makes the flow of `state` the start of `climb` if it proves more than the flows offered
  /// before. Ignores its potentials.
  void offer(const flow::State& state);
  /// Takes `steps` steps from the best flow offered. A step is O(list x settings^2) per stage.
  void climb(int steps);

  Watts value() const { return Watts{best_.value}; }  ///< value of the best flow found
  /// Returns the bound of effective energy, per GPU, of plans that end by the deadline.
  Joules proves() const { return Joules{best_.proves}; }
  /// Returns the bound that the best flow proves if no choices are left out.
  Joules proves_of_any() const;
  /// Returns the price of a second of each node, W: the best flow found.
  std::span<const double> prices() const { return best_.price; }
  /// Returns the longest time of each node in seconds; longer choices are left out.
  std::span<const double> longest() const { return longest_; }

  struct Proof {
    std::vector<std::int64_t> flow;  ///< one per arc, in `Problem::flow_unit`; conserved
    std::vector<std::int64_t> longest_nanoseconds;
    Joules effective;  ///< lower bound per GPU for plans that end by the deadline
  };
  /// Returns a proof for the best flow, rounded to whole units; nullopt if some stage has no
  /// choices that fit, in which case no plan ends by the deadline.
  std::optional<Proof> proof();

 private:
  struct Flow {
    std::vector<double> arc;    // W, per arc
    std::vector<double> price;  // W, per node
    double value = 0;           // W
    double proves = -LateCosts::kNever;
  };

  void leave_out(std::int64_t tolerance);
  /// Sets and returns the energy that a flow proves. With `kOpen`, which `climb` uses, the first
  /// computation of a list may follow any setting. This proves a little less but takes a fraction
  /// of the time.
  enum class Ends : unsigned char { kMeet, kOpen };
  double evaluate(Flow& flow, Ends ends);
  double proven_by(const Flow& flow, Ends ends, std::span<const double> longest, LateRound& round,
                   std::vector<int>& setting) const;
  void set_lengths();
  Flow blended(const Flow& flow) const;
  void step(Flow& flow, double rate);

  const SearchOrder& layout_;
  const LateCosts& costs_;
  const Problem& problem_;
  LateRound round_;
  double deadline_;
  std::vector<std::int64_t> longest_nanoseconds_;
  std::vector<double> longest_;
  std::vector<double> lag_;     // s, per arc
  std::vector<double> length_;  // s, per arc, at the choices of the last evaluation
  std::vector<int> setting_;    // per node, at the choices of the last evaluation
  Flow best_;
  std::vector<double> event_, weight_, inflow_;  // scratch
};

}  // namespace harpe::plan
