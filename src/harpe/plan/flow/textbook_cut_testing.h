#pragma once
/// \file
/// The textbook parametric cut: at every breakpoint a maximum flow by blocking flows (Dinitz 1970)
/// over the whole residual network, a search of all nodes for the cut and of all arcs for the next
/// breakpoint. An oracle for the tests of `ParametricCut`, and the baseline of its benchmarks.
/// O(nodes + arcs) and more for every breakpoint.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "harpe/plan/flow/parametric_cut.h"

namespace harpe::plan::flow {

struct TextbookResult {
  State state;  ///< at the shortest horizon
  std::vector<Breakpoint> breakpoints;
  std::int64_t steps = 0;
};

class Textbook {
 public:
  Textbook(const Network& network, State& state)
      : network_(network),
        incidence_(network),
        state_(state),
        step_(network.arcs.size(), 0),
        low_(network.arcs.size()),
        high_(network.arcs.size()),
        level_(network.nodes),
        next_(network.nodes) {}

  // Updates the allowed flow of every arc from the potentials.
  void refresh() {
    for (std::size_t i = 0; i < network_.arcs.size(); ++i) {
      const std::int64_t x = length(i);
      const Curve& curve = network_.curves[network_.arcs[i].curve];
      step_[i] = step_at(curve, x, step_[i]);
      const FlowRange range = flow_range(curve, step_[i], x);
      low_[i] = range.low;
      high_[i] = range.high;
    }
  }

  // Computes breadth-first levels from the source. Returns false if the sink is not reachable.
  bool search() {
    std::fill(level_.begin(), level_.end(), -1);
    queue_.assign(1, network_.source);
    level_[network_.source] = 0;
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      for (const auto& entry : incidence_.of(queue_[i])) {
        if (level_[entry.node] >= 0 || residual(entry.code) <= 0) continue;
        level_[entry.node] = level_[queue_[i]] + 1;
        queue_.push_back(entry.node);
      }
    }
    return level_[network_.sink] >= 0;
  }

  // Adds a blocking flow on the levels. Returns false if a path is unbounded.
  bool block() {
    std::fill(next_.begin(), next_.end(), 0);
    std::vector<std::int32_t> path;
    std::int32_t v = network_.source;
    while (true) {
      if (v == network_.sink) {
        std::int64_t amount = kUnbounded;
        for (const std::int32_t code : path) amount = std::min(amount, residual(code));
        if (amount >= kUnbounded / 4) return false;
        state_.value += amount;
        std::size_t saturated = path.size();
        for (std::size_t i = path.size(); i-- > 0;) {
          state_.flow[path[i] >> 1] += (path[i] & 1) ? -amount : amount;
          if (residual(path[i]) == 0) saturated = i;
        }
        v = from(path[saturated]);
        path.resize(saturated);
        continue;
      }
      const auto entries = incidence_.of(v);
      bool advanced = false;
      for (; next_[v] < static_cast<std::int32_t>(entries.size()); ++next_[v]) {
        const auto& entry = entries[next_[v]];
        if (level_[entry.node] != level_[v] + 1 || residual(entry.code) <= 0) continue;
        path.push_back(entry.code);
        v = entry.node;
        advanced = true;
        break;
      }
      if (advanced) continue;
      if (path.empty()) return true;
      v = from(path.back());
      path.pop_back();
      ++next_[v];
    }
  }

  // Moves the sink side to the next breakpoint. Returns false if there is none.
  bool shift() {
    std::int64_t distance = kUnbounded;
    for (std::size_t i = 0; i < network_.arcs.size(); ++i) {
      const Arc& arc = network_.arcs[i];
      const bool tail = level_[arc.tail] >= 0;
      if (tail == (level_[arc.head] >= 0)) continue;
      const Curve& curve = network_.curves[arc.curve];
      const std::int64_t x = length(i);
      if (!tail) {
        if (step_[i] > 0) distance = std::min(distance, curve.length[step_[i] - 1] - x);
      } else if (x > curve.length[step_[i]]) {
        distance = std::min(distance, x - curve.length[step_[i]]);
      } else if (step_[i] + 1 < static_cast<std::int32_t>(curve.length.size())) {
        distance = std::min(distance, x - curve.length[step_[i] + 1]);
      }
    }
    if (distance == kUnbounded) return false;
    for (std::int32_t v = 0; v < network_.nodes; ++v) {
      if (level_[v] < 0) state_.potential[v] -= distance;
    }
    return true;
  }

 private:
  std::int64_t length(std::size_t i) const {
    const Arc& arc = network_.arcs[i];
    return state_.potential[arc.head] - state_.potential[arc.tail] + arc.shift;
  }
  std::int64_t residual(std::int32_t code) const {
    const std::int32_t arc = code >> 1;
    return (code & 1) ? state_.flow[arc] - low_[arc] : high_[arc] - state_.flow[arc];
  }
  std::int32_t from(std::int32_t code) const {
    const Arc& arc = network_.arcs[code >> 1];
    return (code & 1) ? arc.head : arc.tail;
  }

  const Network& network_;
  Incidence incidence_;
  State& state_;
  std::vector<std::int32_t> step_;
  std::vector<std::int64_t> low_, high_;
  std::vector<std::int32_t> level_, next_, queue_;
};

/// Returns the breakpoints from `state` to the shortest horizon, and the state there.
inline TextbookResult textbook_cut(const Network& network, State state) {
  TextbookResult result;
  Textbook textbook(network, state);
  while (true) {
    textbook.refresh();
    const std::int64_t value = state.value;
    bool bounded = true;
    while (bounded && textbook.search()) bounded = textbook.block();
    if (bounded && state.value > value)
      result.breakpoints.push_back({state.horizon(network), state.value});
    if (!bounded || !textbook.shift()) break;
    ++result.steps;
  }
  result.state = std::move(state);
  return result;
}

}  // namespace harpe::plan::flow
