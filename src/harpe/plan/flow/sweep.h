#pragma once
/// \file
/// The whole cost curve of a network, from the longest to the shortest horizon worth having, in
/// compact form.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/flow/parametric_cut.h"

namespace harpe::plan::flow {

struct SweepOptions {
  /// At most so many bytes of checkpoints: states kept on the way, from which any horizon is
  /// rebuilt. At least two are kept.
  std::size_t checkpoint_bytes = std::size_t{16} << 20;
  /// Called with the optimum at so many horizons, evenly spaced, on the way.
  int visits = 0;
  std::function<void(const State&)> visit = {};
  /// Called now and then with the fraction of the way from the longest to the shortest horizon.
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

  /// The optimum at `horizon`, which must lie in [shortest, longest], stepped to from the nearest
  /// checkpoint. At a breakpoint its flow is that of longer horizons.
  State at(const Network& network, std::int64_t horizon) const;
  /// The optima at several horizons, longest first, in one run.
  std::vector<State> at(const Network& network, std::span<const std::int64_t> horizons) const;
  /// The same without holding more than one: calls `visit` with each in turn.
  void visit(const Network& network, std::span<const std::int64_t> horizons,
             const std::function<void(const State&)>& visit) const;
  std::size_t memory_bytes() const;
};

/// Sweeps the whole curve. The network must have no circle.
CostCurve sweep(const Network& network, const SweepOptions& options = {});

}  // namespace harpe::plan::flow
