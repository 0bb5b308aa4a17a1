#pragma once
/// \file
/// The common parts of replays of recurring jobs, whether recurrences follow each other or overlap:
/// runs drawn from a trace, the costs of their epochs, and the choice of batch sizes in Zeus's
/// simulator (facts as in recurrences.h).

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/lab/replay/recurrences.h"
#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pruning.h"
#include "harpe/zeus/batch_size/thompson.h"

namespace harpe::lab {

/// Most tries of one recurrence; after them, its job counts as not converging.
inline constexpr int kMostTries = 20;

/// Random draws of runs. They do not depend on the algorithm that chooses the sizes.
class TracedRuns {
 public:
  explicit TracedRuns(std::uint64_t seed) : seed_(seed) {}
  /// Returns the epochs to the target; nullopt if it was never reached.
  std::optional<int> draw(const TracedSize& size);

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

void add_epochs(Recurrence& recurrence, const TracedJob& job, const TracedLimit& limit, int epochs);

/// Returns the number of epochs of a run that the bound allows.
/// \param bound  J; may be infinite
int epochs_within(double bound, const TracedJob& job, const TracedSize& size);

/// Pruning, then the bandit of Zeus's simulator, which needs two observations of each size.
class ZeusChooser {
 public:
  /// \param job  must outlive this object
  ZeusChooser(const zeus::RecurringJob& job, std::uint64_t seed);

  /// Returns the size of a run whose result is passed to `observe` next, apart from results of
  /// other runs.
  Result<int> next();
  /// Adds a result. During pruning, only the result of the requested size steers it; results of
  /// other runs are kept for the bandit.
  void observe(int size, double cost, bool converged);

 private:
  const zeus::RecurringJob& job_;
  zeus::Draws draws_;
  std::optional<int> awaited_;  ///< size that pruning has requested
  std::map<int, std::vector<zeus::ExplorationResult>> explored_;
  std::map<int, std::vector<double>> rewards_;
};

}  // namespace harpe::lab
