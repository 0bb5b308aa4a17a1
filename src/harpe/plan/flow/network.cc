#include "harpe/plan/flow/network.h"

#include <algorithm>

namespace harpe::plan::flow {

Incidence::Incidence(const Network& network) {
  first_.assign(network.nodes + 1, 0);
  for (const Arc& arc : network.arcs) {
    ++first_[arc.tail + 1];
    ++first_[arc.head + 1];
  }
  for (std::int32_t v = 0; v < network.nodes; ++v) first_[v + 1] += first_[v];
  entries_.resize(2 * network.arcs.size());
  std::vector<std::int32_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < network.arcs.size(); ++i) {
    const Arc& arc = network.arcs[i];
    const auto code = static_cast<std::int32_t>(2 * i);
    entries_[next[arc.tail]++] = {code, arc.head};
    entries_[next[arc.head]++] = {code + 1, arc.tail};
  }
}

std::vector<std::int64_t> earliest(const Network& network, std::span<const std::int64_t> lengths) {
  const Incidence incidence(network);
  std::vector<std::int64_t> potential(network.nodes, 0);
  std::vector<std::int32_t> missing(network.nodes, 0);
  for (const Arc& arc : network.arcs) ++missing[arc.head];
  std::vector<std::int32_t> order;
  order.reserve(network.nodes);
  for (std::int32_t v = 0; v < network.nodes; ++v) {
    if (missing[v] == 0) order.push_back(v);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t u = order[i];
    for (const auto& entry : incidence.of(u)) {
      if (entry.code & 1) continue;
      const std::int32_t arc = entry.code / 2;
      potential[entry.node] =
          std::max(potential[entry.node], potential[u] + lengths[arc] - network.arcs[arc].shift);
      if (--missing[entry.node] == 0) order.push_back(entry.node);
    }
  }
  if (order.size() != static_cast<std::size_t>(network.nodes)) potential.clear();
  return potential;
}

State slowest(const Network& network) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(network.arcs.size());
  for (const Arc& arc : network.arcs) lengths.push_back(network.curves[arc.curve].length[0]);
  State state;
  state.potential = earliest(network, lengths);
  state.flow.assign(network.arcs.size(), 0);
  return state;
}

bool is_optimal(const Network& network, const State& state) {
  std::vector<std::int64_t> excess(network.nodes, 0);
  for (std::size_t i = 0; i < network.arcs.size(); ++i) {
    const Arc& arc = network.arcs[i];
    const Curve& curve = network.curves[arc.curve];
    const std::int64_t x = state.potential[arc.head] - state.potential[arc.tail] + arc.shift;
    if (x < curve.length.back()) return false;
    const FlowRange range = flow_range(curve, step_at(curve, x, 0), x);
    if (state.flow[i] < range.low || state.flow[i] > range.high) return false;
    excess[arc.tail] -= state.flow[i];
    excess[arc.head] += state.flow[i];
  }
  excess[network.source] += state.value;
  excess[network.sink] -= state.value;
  return std::all_of(excess.begin(), excess.end(), [](std::int64_t e) { return e == 0; });
}

}  // namespace harpe::plan::flow
