#pragma once
/// \file
/// The recurrences of one traced job, and their cost with the default batch size, with Zeus's
/// choice and with Harpe's (Zeus, NSDI'23, section 6.1: trace-driven simulation). Each run is one
/// of the trace, drawn by the seed. With Zeus's choice the first run of a size profiles all limits
/// in its first epoch, at their mean cost; with Harpe's, only the limits that are worth it
/// (measured_limits.h).
///
/// Pure: the same seed gives the same recurrences.

#include <cstdint>
#include <utility>
#include <vector>

#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::lab {

/// All tries of a recurrence, up to the one that reached the target.
struct Recurrence {
  int batch_size = 0;  ///< of the last try
  int power_limit = 0;
  int tries = 0;
  int epochs = 0;  ///< of the last try
  /// With Harpe: batch sizes and epochs of the earlier tries.
  std::vector<std::pair<int, int>> given_up = {};
  double cost = 0;  ///< J, of all tries
  Joules energy{};
  Seconds time{};
};
using Recurrences = std::vector<Recurrence>;

/// Runs all recurrences with the default batch size and the highest limit.
Recurrences recur_by_default(const TracedJob& job, std::uint64_t seed);
/// Runs the recurrences like the simulator of Zeus's repository: two rounds of pruning, then
/// Thompson sampling by the bandit that needs two observations. The bound is `beta` times the least
/// cost of a recurrence, failed tries included. Fails with `kInfeasible` if the first run does not
/// converge, or 20 tries of one recurrence do not.
Result<Recurrences> recur_by_zeus(const TracedJob& job, std::uint64_t seed);
/// Runs the recurrences with `BatchSizeOptimizer`, which knows the job's horizon.
Result<Recurrences> recur_by_harpe(const TracedJob& job, std::uint64_t seed,
                                   const zeus::PayBackPrior& prior = {});

/// Runs one size and limit after the other, once each, in the order of rising sizes and falling
/// limits, then repeats the one of least cost that converged. After a run that does not converge,
/// the remaining limits of its size are skipped.
Recurrences recur_by_grid(const TracedJob& job, std::uint64_t seed);

/// Returns the epochs to target known after these recurrences of Harpe, for use on another GPU.
std::vector<zeus::KnownEpochs> known_epochs(const Recurrences& recurrences);

/// Returns the sum of costs over the cost of equally many recurrences of the oracle.
double cost_over_oracle(const TracedJob& job, const Recurrences& recurrences);

}  // namespace harpe::lab
