#pragma once
/// \file
/// Which batch sizes are worth sampling: Zeus's pruning (NSDI'23, section 4.4). Each round runs
/// the default, then smaller ones as long as they converge, then larger ones; the cheapest is the
/// next round's default, those that converged are what it is left with.
///
/// The rounds are played again from the results each time, so that nothing but results is kept.

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
  std::optional<int> explore = {};  ///< the size whose result is needed next
  int visit = 0;                    ///< how many results of that size were used before
  std::vector<int> kept = {};  ///< rising, where nothing is needed any more; empty: none converged
};

/// \param sizes   rising; `default_size` is one of them
/// \param result  of the n-th exploration of a size, from 0; none: there is none yet
/// \returns  with 0 rounds, all sizes as `kept`. O(sizes x rounds).
PruningStep next_pruning_step(
    std::span<const int> sizes, int default_size, int rounds,
    const std::function<std::optional<ExplorationResult>(int size, int visit)>& result);

}  // namespace harpe::zeus
