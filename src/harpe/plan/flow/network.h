#pragma once
/// \file
/// Networks whose arcs may be shortened at a price: the linear time-cost trade-off problem.
///
/// Every node v has a potential (a time) p(v). An arc from u to v requires p(v) - p(u) >= its
/// length. The length is a variable: the cost of an arc is a convex, piecewise linear function that
/// falls with the length, given as a `Curve`. For a horizon T = p(sink) - p(source) the least total
/// cost C(T) is convex, piecewise linear and falls with T. Its slope at T is minus the value of a
/// maximum flow: the flow of an arc is the marginal cost of its length (linear programming duality;
/// Fulkerson 1961, Kelley 1961). All numbers are integers, so that no tolerances are needed.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace harpe::plan::flow {

/// The capacity of an arc that cannot be shortened further. Larger than every flow in use.
inline constexpr std::int64_t kUnbounded = std::int64_t{1} << 60;

/// The cost of an arc as a function of its length: `length[0]` and longer lengths cost nothing, and
/// shortening from `length[j - 1]` to `length[j]` costs `rate[j]` per unit. Invariants: at least
/// one length; lengths strictly fall; rates strictly rise, `rate[0] == 0`, the rest > 0; `rate`
/// ends with a sentinel `kUnbounded`, so that `rate.size() == length.size() + 1`.
struct Curve {
  std::vector<std::int64_t> length;
  std::vector<std::int64_t> rate;

  /// Returns a curve with a single length.
  static Curve fixed(std::int64_t length) { return {{length}, {0, kUnbounded}}; }
};

/// An arc whose curve gives its length: p(head) - p(tail) + shift >= length. Shifts allow
/// contracted networks to share curves.
struct Arc {
  std::int32_t tail = 0;
  std::int32_t head = 0;
  std::int32_t curve = 0;
  std::int64_t shift = 0;
};

/// An acyclic network in which every node lies on a path from `source` to `sink`.
struct Network {
  std::int32_t nodes = 0;
  std::int32_t source = 0;
  std::int32_t sink = 0;
  std::vector<Arc> arcs;
  std::vector<Curve> curves;
};

/// An optimal pair for one horizon: potentials, and a flow of `value` from source to sink that
/// satisfies complementary slackness with them. The flow of an arc of length x lies between the
/// rates of its curve around x (see `flow_range`).
struct State {
  std::vector<std::int64_t> potential;  ///< one per node; 0 for the source
  std::vector<std::int64_t> flow;       ///< one per arc
  std::int64_t value = 0;

  std::int64_t horizon(const Network& network) const {
    return potential[network.sink] - potential[network.source];
  }
};

/// The flows that complementary slackness allows on an arc whose curve is at length `x`.
struct FlowRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// Returns the index j with length[j] <= x < length[j - 1] (0 for x >= length[0]). Requires x >=
/// the shortest length.
/// \param hint  index at which the search starts
inline int step_at(const Curve& curve, std::int64_t x, int hint) {
  int j = hint;
  while (j > 0 && x >= curve.length[j - 1]) --j;
  while (x < curve.length[j]) ++j;
  return j;
}

inline FlowRange flow_range(const Curve& curve, int step, std::int64_t x) {
  if (x == curve.length[step]) return {curve.rate[step], curve.rate[step + 1]};
  return {curve.rate[step], curve.rate[step]};
}

/// Incident arcs of every node in compressed rows. Code `2 * arc` leads from tail to head, `2 * arc
/// + 1` from head to tail.
class Incidence {
 public:
  struct Entry {
    std::int32_t code;
    std::int32_t node;  ///< node at the other end
  };
  explicit Incidence(const Network& network);
  std::span<const Entry> of(std::int32_t node) const {
    return {entries_.data() + first_[node], entries_.data() + first_[node + 1]};
  }

 private:
  std::vector<std::int32_t> first_;
  std::vector<Entry> entries_;
};

/// Returns the optimum at the longest useful horizon: every arc at `length[0]`, no flow, earliest
/// potentials. Returns an empty state if the network has a cycle. O(nodes + arcs).
State slowest(const Network& network);

/// Returns the earliest potentials for given arc lengths (one per arc), empty if the network has a
/// cycle. O(nodes + arcs).
std::vector<std::int64_t> earliest(const Network& network, std::span<const std::int64_t> lengths);

/// Returns true if `state` is optimal for `network`: lengths are feasible, flow is conserved, and
/// complementary slackness holds. O(nodes + arcs).
bool is_optimal(const Network& network, const State& state);

}  // namespace harpe::plan::flow
