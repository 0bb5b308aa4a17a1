#include "harpe/zeus/batch_size/pruning.h"

#include <algorithm>
#include <map>

namespace harpe::zeus {
namespace {

/// Returns the default and the smaller sizes, descending; then the larger sizes, ascending.
std::vector<std::vector<int>> directions(std::span<const int> sizes, int default_size) {
  const auto above = std::ranges::upper_bound(sizes, default_size);
  std::vector<int> down(sizes.begin(), above);
  std::ranges::reverse(down);
  return {down, std::vector<int>(above, sizes.end())};
}

}  // namespace

PruningStep next_pruning_step(
    std::span<const int> sizes, int default_size, int rounds,
    const std::function<std::optional<ExplorationResult>(int size, int visit)>& result) {
  std::vector<int> left(sizes.begin(), sizes.end());
  std::map<int, int> visits;
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> kept;
    std::optional<double> least;
    int cheapest = default_size;
    for (const std::vector<int>& direction : directions(left, default_size)) {
      for (const int size : direction) {
        const int visit = visits[size]++;
        const std::optional<ExplorationResult> found = result(size, visit);
        if (!found) return {.explore = size, .visit = visit};
        if (!found->converged) break;
        kept.push_back(size);
        if (!least || found->cost < *least) {
          least = found->cost;
          cheapest = size;
        }
      }
    }
    if (kept.empty()) return {};
    std::ranges::sort(kept);
    left = std::move(kept);
    default_size = cheapest;
  }
  return {.kept = std::move(left)};
}

}  // namespace harpe::zeus
