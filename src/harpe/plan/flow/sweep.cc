#include "harpe/plan/flow/sweep.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "harpe/base/check.h"

namespace harpe::plan::flow {
namespace {

std::size_t bytes_of(const State& state) {
  return sizeof(State) + sizeof(std::int64_t) * (state.potential.size() + state.flow.size());
}

// Drops every second entry.
void thin(std::vector<State>& states) {
  std::size_t kept = 1;
  for (std::size_t i = 2; i < states.size(); i += 2) states[kept++] = std::move(states[i]);
  states.resize(kept);
}

void add_checkpoint(const Network& network, State state, std::vector<State>& checkpoints) {
  HARPE_CHECK(state.horizon(network) <= checkpoints.back().horizon(network),
              "checkpoints go from the longest horizon to the shortest");
  checkpoints.push_back(std::move(state));
}

}  // namespace

State CostCurve::at(const Network& network, std::int64_t horizon) const {
  return std::move(at(network, std::span(&horizon, 1)).front());
}

std::vector<State> CostCurve::at(const Network& network,
                                 std::span<const std::int64_t> horizons) const {
  std::vector<State> states;
  visit(network, horizons, [&](const State& state) { states.push_back(state); });
  return states;
}

void CostCurve::visit(const Network& network, std::span<const std::int64_t> horizons,
                      const std::function<void(const State&)>& visit) const {
  std::optional<ParametricCut> cut;
  std::vector<Breakpoint> ignored;
  for (const std::int64_t horizon : horizons) {
    const auto after =
        std::partition_point(checkpoints.begin(), checkpoints.end(),
                             [&](const State& state) { return state.horizon(network) > horizon; });
    const State& nearest = after == checkpoints.begin() ? *after : *(after - 1);
    if (!cut || cut->horizon() > nearest.horizon(network)) cut.emplace(network, nearest);
    ignored.clear();
    cut->run({.horizon = horizon}, ignored);
    HARPE_CHECK(cut->horizon() == horizon, "an optimum is at the horizon that was asked for");
    visit(cut->state());
  }
}

std::size_t CostCurve::memory_bytes() const {
  std::size_t bytes = sizeof(CostCurve) + breakpoints.capacity() * sizeof(Breakpoint);
  for (const State& state : checkpoints) bytes += bytes_of(state);
  return bytes;
}

CostCurve sweep(const Network& network, const SweepOptions& options) {
  CostCurve curve;
  State slowest_state = slowest(network);
  HARPE_CHECK(!slowest_state.potential.empty(), "a network has no circle");
  curve.checkpoints.push_back(std::move(slowest_state));
  curve.longest = curve.checkpoints.front().horizon(network);
  std::vector<std::int64_t> shortest_lengths;
  shortest_lengths.reserve(network.arcs.size());
  for (const Arc& arc : network.arcs) {
    shortest_lengths.push_back(network.curves[arc.curve].length.back());
  }
  curve.shortest = earliest(network, shortest_lengths)[network.sink];
  const std::size_t limit = std::clamp<std::size_t>(
      options.checkpoint_bytes / bytes_of(curve.checkpoints.front()), 4, 64);
  std::int64_t distance = std::max(16, network.nodes / 64);  // finer checkpoints are thinned out
  ParametricCut cut(network, curve.checkpoints.front());
  int visited = 0;
  const auto next_visit = [&] {
    if (visited >= options.visits) return std::numeric_limits<std::int64_t>::min();
    return curve.longest - (curve.longest - curve.shortest) / (options.visits + 1) * (visited + 1);
  };
  std::int64_t checkpoint_at = distance;  // steps
  while (true) {
    const std::int64_t visit_at = next_visit();
    const Stop stop =
        cut.run({.horizon = visit_at, .steps = checkpoint_at - cut.steps()}, curve.breakpoints);
    if (stop == Stop::kFastest) break;
    if (cut.horizon() == visit_at) {
      options.visit(cut.state());
      ++visited;
      continue;
    }
    checkpoint_at += distance;
    add_checkpoint(network, cut.state(), curve.checkpoints);
    if (curve.checkpoints.size() + 1 >= limit) {
      thin(curve.checkpoints);
      distance *= 2;
    }
    if (options.progress && curve.longest > curve.shortest) {
      options.progress(static_cast<double>(curve.longest - cut.horizon()) /
                       static_cast<double>(curve.longest - curve.shortest));
    }
  }
  add_checkpoint(network, cut.state(), curve.checkpoints);
  // Steps change lengths and flows only by differences, so an error in any step shows in the last
  // state. Checking every checkpoint would take a tenth of the total time.
  HARPE_CHECK(is_optimal(network, curve.checkpoints.back()),
              "after the sweep flow is conserved at every node and optimal, lengths feasible");
  HARPE_CHECK(cut.horizon() == curve.shortest,
              "the curve ends where every arc on a longest path is at its shortest");
  curve.steps = cut.steps();
  return curve;
}

}  // namespace harpe::plan::flow
