#pragma once
/// \file
/// One traced job, again and again: what it costs with the default batch size, by Zeus's choice and
/// by Harpe's (Zeus, NSDI'23, section 6.1: trace-driven simulation). Each run is one of the trace,
/// drawn by the seed. By Zeus's choice the first run with a size profiles all limits in its first
/// epoch, at their mean cost; by Harpe's, those that are worth it (measured_limits.h).
///
/// Pure: the same seed gives the same recurrences.

#include <cstdint>
#include <utility>
#include <vector>

#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::lab {

/// All its tries, up to the one that reached the target.
struct Recurrence {
  int batch_size = 0;  ///< of the last
  int power_limit = 0;
  int tries = 0;
  int epochs = 0;                                  ///< of the last try
  std::vector<std::pair<int, int>> given_up = {};  ///< by Harpe: sizes, and epochs, of the others
  double cost = 0;                                 ///< J, of all tries
  Joules energy{};
  Seconds time{};
};
using Recurrences = std::vector<Recurrence>;

/// The default size and the highest limit.
Recurrences recur_by_default(const TracedJob& job, std::uint64_t seed);
/// As the simulator of Zeus's repository: two rounds of pruning, then Thompson sampling by the
/// bandit that needs two observations; a recurrence's least cost, with the tries that failed, is
/// the bound. `kInfeasible` where the default does not converge at once, or 20 tries do not.
Result<Recurrences> recur_by_zeus(const TracedJob& job, std::uint64_t seed);
/// By `BatchSizeOptimizer`, which is told the job's horizon.
Result<Recurrences> recur_by_harpe(const TracedJob& job, std::uint64_t seed,
                                   const zeus::PayBackPrior& prior = {});

/// Of one size and limit after the other, one run each: the least of those that converged is kept.
/// Sizes of which one run failed are left out. The order is rising sizes, falling limits.
Recurrences recur_by_grid(const TracedJob& job, std::uint64_t seed);

/// What is known of epochs to target after these, which Harpe chose: what another GPU may be told.
std::vector<zeus::KnownEpochs> known_epochs(const Recurrences& recurrences);

/// Sum of costs over that of as many recurrences of the oracle.
double cost_over_oracle(const TracedJob& job, const Recurrences& recurrences);

}  // namespace harpe::lab
