#include "harpe/flow/binary_cut.h"

#include <algorithm>

namespace harpe::flow {

BinaryCut::BinaryCut(const Network& network)
    : network_(network),
      incidence_(network),
      capacity_(2 * network.arcs.size()),
      excess_(network.nodes),
      level_(network.nodes, -1),
      next_(network.nodes) {}

void BinaryCut::clear() {
  std::fill(capacity_.begin(), capacity_.end(), 0);
  std::fill(excess_.begin(), excess_.end(), 0);
}

// Breadth-first levels from all supplies; false when no demand is in reach.
bool BinaryCut::search() {
  std::fill(level_.begin(), level_.end(), -1);
  queue_.clear();
  for (std::int32_t v = 0; v < network_.nodes; ++v) {
    if (excess_[v] <= 0) continue;
    level_[v] = 0;
    queue_.push_back(v);
  }
  bool found = false;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const std::int32_t u = queue_[i];
    if (excess_[u] < 0) {
      found = true;
      continue;
    }
    for (const auto& entry : incidence_.of(u)) {
      if (level_[entry.node] >= 0 || capacity_[entry.code] <= 0) continue;
      level_[entry.node] = level_[u] + 1;
      queue_.push_back(entry.node);
    }
  }
  return found;
}

// Sends what it can of the supply of v along the levels to demands, and returns how much.
std::int64_t BinaryCut::send(std::int32_t source) {
  std::int64_t sent = 0;
  path_.clear();
  std::int32_t v = source;
  while (true) {
    if (excess_[v] < 0) {
      std::int64_t amount = std::min(excess_[source], -excess_[v]);
      for (const std::int32_t code : path_) amount = std::min(amount, capacity_[code]);
      excess_[v] += amount;
      excess_[source] -= amount;
      sent += amount;
      std::size_t kept = path_.size();
      for (std::size_t i = path_.size(); i-- > 0;) {
        capacity_[path_[i]] -= amount;
        capacity_[path_[i] ^ 1] += amount;
        if (capacity_[path_[i]] == 0) kept = i;
      }
      if (excess_[source] == 0) return sent;
      if (kept == path_.size()) {  // the demand is met: step back from it
        v = from(path_.back());
        path_.pop_back();
        ++next_[v];
      } else {
        v = from(path_[kept]);
        path_.resize(kept);
      }
      continue;
    }
    const auto entries = incidence_.of(v);
    std::int32_t& next = next_[v];
    const auto count = static_cast<std::int32_t>(entries.size());
    while (next < count &&
           (level_[entries[next].node] != level_[v] + 1 || capacity_[entries[next].code] <= 0)) {
      ++next;
    }
    if (next < count) {
      path_.push_back(entries[next].code);
      v = entries[next].node;
    } else {
      if (path_.empty()) return sent;
      v = from(path_.back());
      path_.pop_back();
      ++next_[v];
    }
  }
}

std::int64_t BinaryCut::solve() {
  // Choosing a node of negative cost pays: as a flow problem it supplies what it would gain.
  std::int64_t best = 0;
  excess_[network_.source] = excess_[network_.sink] = -kUnbounded;
  for (const std::int64_t e : excess_) {
    if (e > 0) best -= e;
  }
  while (search()) {
    std::fill(next_.begin(), next_.end(), 0);
    for (std::int32_t v = 0; v < network_.nodes; ++v) {
      if (excess_[v] > 0) best += send(v);
    }
  }
  return best;
}

}  // namespace harpe::flow
