#pragma once
/// \file
/// The textbook parametric cut: at every breakpoint a maximum flow by blocking flows (Dinitz 1970)
/// over the whole residual network, a search of all nodes for the cut and of all arcs for the next
/// breakpoint. Kept as an oracle for `ParametricCut` and as the yardstick of its speed; O(nodes +
/// arcs) for every breakpoint.

#include <vector>

#include "harpe/flow/parametric_cut.h"

namespace harpe::flow {

struct TextbookResult {
  State state;  ///< at the shortest horizon
  std::vector<Breakpoint> breakpoints;
  std::int64_t steps = 0;
};

/// Goes from `state` to the shortest horizon.
/// \param visit  if given, called with the optimum at every step.
TextbookResult textbook_cut(const Network& network, State state,
                            void (*visit)(const State&, void*) = nullptr, void* context = nullptr);

}  // namespace harpe::flow
