#pragma once
/// \file
/// A lower bound of plans whose settings come late.
///
/// Weak duality, as in `Certificate`: with a flow of value F through the network, f_i of it through
/// instruction i, every plan that ends by T needs at least
///   sum_i (cost_i + f_i time_i) + sum_d g_d lag_d - F T
/// of effective energy. When settings come late, cost and time of an instruction depend on its
/// setting and on that before; but the lists of the stages have nothing to do with each other once
/// a flow is given, and the least sum of each is found by dynamic programming (`LateRound`). Any
/// flow proves a bound. The best one is climbed to by exponentiated gradient steps over the paths
/// through the network (Kivinen and Warmuth 1997; over paths Takimoto and Warmuth 2003): paths that
/// take longer than T at the cheapest choices get more flow, shorter ones less.
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

/// Deterministic. Refers to what it is made of.
class LateBound {
 public:
  /// \param tolerance  picoseconds that rounding adds up to along the pipeline
  LateBound(const SearchOrder& layout, const LateCosts& costs, Seconds deadline,
            std::int64_t tolerance);

  /// A flow to begin at, if it proves more than others before. Only its flows are looked at.
  void offer(const flow::State& state);
  /// Goes so many steps from the best flow offered. O(list x settings^2) each, for every stage.
  void climb(int steps);

  Watts value() const { return Watts{best_.value}; }  ///< of the best flow that was found
  /// Effective energy, per GPU, that it proves of plans that end by the deadline.
  Joules proves() const { return Joules{best_.proves}; }
  /// The same without leaving out choices as too long.
  Joules proves_of_any() const;
  /// Of a second of each node, W: the best flow that was found.
  std::span<const double> prices() const { return best_.price; }
  /// Seconds of each node: what takes longer is left out.
  std::span<const double> longest() const { return longest_; }

  struct Proof {
    std::vector<std::int64_t> flow;  ///< of each arc, in `Problem::flow_unit`; conserved
    std::vector<std::int64_t> longest_nanoseconds;
    Joules effective;  ///< no plan that ends by the deadline needs less; per GPU
  };
  /// Nothing where no choices fit: then no plan ends by the deadline.
  std::optional<Proof> proof();

 private:
  struct Flow {
    std::vector<double> arc;    // W
    std::vector<double> price;  // of each node, W
    double value = 0;           // W
    double proves = -LateCosts::kNever;
  };

  void leave_out(std::int64_t tolerance);
  /// Sets and returns what a flow proves. With `kOpen`, which climbing uses, the first computation
  /// of a list may follow any setting: this proves a little less and takes a fraction of the time.
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
  std::vector<double> lag_;     // of each arc, s
  std::vector<double> length_;  // of each arc, s, at the choices of the last evaluation
  std::vector<int> setting_;    // of each node, likewise
  Flow best_;
  std::vector<double> event_, weight_, inflow_;  // scratch
};

}  // namespace harpe::plan
