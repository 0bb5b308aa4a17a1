#pragma once
/// \file
/// The whole cost curve of a network, from the longest to the shortest useful horizon, compactly.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/flow/parametric_cut.h"

namespace harpe::plan::flow {

struct SweepOptions {
  /// Memory limit for checkpoints: states that the sweep stores, from which the optimum at any
  /// horizon is computed. Between 4 and 64 checkpoints are allowed for any limit.
  std::size_t checkpoint_bytes = std::size_t{16} << 20;
  /// Number of evenly spaced horizons at which `visit` is called with the optimum.
  int visits = 0;
  std::function<void(const State&)> visit = {};
  /// Called from time to time with the part of the way from `longest` to `shortest` (0 to 1).
  std::function<void(double)> progress = {};
};

/// The cost curve of a network. Between two breakpoints the cost is linear, with the flow's value
/// as its slope.
struct CostCurve {
  std::vector<Breakpoint> breakpoints;  ///< longest horizon first
  std::vector<State>
      checkpoints;  ///< longest horizon first: from `slowest` to the shortest horizon
  std::int64_t longest = 0;
  std::int64_t shortest = 0;
  std::int64_t steps = 0;  ///< see `ParametricCut::steps`

  /// Returns the optimum at `horizon`, which must lie in [shortest, longest], by steps from the
  /// checkpoint before it. At a breakpoint its flow is that of longer horizons.
  State at(const Network& network, std::int64_t horizon) const;
  /// Returns the optima at several horizons, longest first, in one run.
  std::vector<State> at(const Network& network, std::span<const std::int64_t> horizons) const;
  /// Calls `visit` with the optimum at each horizon in turn. Stores only one of them at a time.
  void visit(const Network& network, std::span<const std::int64_t> horizons,
             const std::function<void(const State&)>& visit) const;
  std::size_t memory_bytes() const;
};

/// Computes the whole curve. The network must be acyclic.
CostCurve sweep(const Network& network, const SweepOptions& options = {});

}  // namespace harpe::plan::flow
