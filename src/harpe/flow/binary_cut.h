#pragma once
/// \file
/// Minimum cuts on a graph that stays while its capacities change: the best simultaneous yes/no
/// decision of many nodes with submodular costs between neighbours.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/flow/network.h"

namespace harpe::flow {

/// Minimises  sum_v unary[v] y_v + sum_(u,v) forward[a] y_u (1 - y_v) + backward[a] (1 - y_u) y_v
/// over y in {0,1}^nodes, one term for each arc a = (u, v) of a network. Source and sink of the
/// network are held at 0. Capacities must not be negative; `kUnbounded` forbids. Blocking flows
/// (Dinitz 1970) from all nodes with negative unary costs at once; among all minima the one with
/// the fewest ones.
class BinaryCut {
 public:
  explicit BinaryCut(const Network& network);

  /// Sets all costs to 0.
  void clear();
  void add_unary(std::int32_t node, std::int64_t cost) { excess_[node] -= cost; }
  /// Holds a node at 0, whatever it costs.
  void hold(std::int32_t node) { excess_[node] = -kUnbounded; }
  void set_arc(std::int32_t arc, std::int64_t forward, std::int64_t backward) {
    capacity_[2 * arc] = forward;
    capacity_[2 * arc + 1] = backward;
  }
  /// Returns the minimum, which is never above 0.
  std::int64_t solve();
  /// Of the last solution.
  bool chosen(std::int32_t node) const { return level_[node] >= 0; }

 private:
  bool search();
  std::int64_t send(std::int32_t source);
  std::int32_t from(std::int32_t code) const {
    const Arc& arc = network_.arcs[code >> 1];
    return (code & 1) ? arc.head : arc.tail;
  }

  const Network& network_;
  Incidence incidence_;
  std::vector<std::int64_t> capacity_;  // of each code
  std::vector<std::int64_t> excess_;    // supply of a node where positive, demand where negative
  std::vector<std::int32_t> level_, next_, queue_, path_;
};

}  // namespace harpe::flow
