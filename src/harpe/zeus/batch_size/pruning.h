#pragma once
/// \file
/// Zeus's pruning of the batch sizes that are worth sampling (NSDI'23, section 4.4). Each round
/// runs the default, then smaller sizes as long as they converge, then larger ones. The cheapest
/// size is the default of the next round, which continues with the converged sizes.
///
/// The rounds are replayed from the results each time, so that only results are stored.

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace harpe::zeus {

struct ExplorationResult {
  double cost = 0;  ///< J
  bool converged = false;
};

struct PruningStep {
  std::optional<int> explore = {};  ///< size whose result is needed next
  int visit = 0;                    ///< number of results of that size used before
  std::vector<int> kept = {};       ///< rising, once no result is needed; empty: none converged
};

/// Returns the next step; with 0 rounds, all sizes as `kept`. O(sizes x rounds).
/// \param sizes   rising; `default_size` is one of them
/// \param result  of the n-th exploration of a size, from 0; nullopt if there is none yet
PruningStep next_pruning_step(
    std::span<const int> sizes, int default_size, int rounds,
    const std::function<std::optional<ExplorationResult>(int size, int visit)>& result);

}  // namespace harpe::zeus
