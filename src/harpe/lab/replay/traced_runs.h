#pragma once
/// \file
/// What replays of recurring jobs have in common, whether recurrences follow each other or overlap:
/// runs drawn from a trace, what their epochs cost, and the way that Zeus's simulator chooses
/// batch sizes (facts as in recurrences.h).

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

/// Tries of one recurrence; then its job counts as one that does not converge.
inline constexpr int kMostTries = 20;

/// Draws runs; which ones does not depend on who chooses the sizes.
class TracedRuns {
 public:
  explicit TracedRuns(std::uint64_t seed) : seed_(seed) {}
  /// Epochs to the target; none: never reached.
  std::optional<int> draw(const TracedSize& size);

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

void add_epochs(Recurrence& recurrence, const TracedJob& job, const TracedLimit& limit, int epochs);

/// How many epochs of a run the bound lets pass. \param bound  J; may be infinite
int epochs_within(double bound, const TracedJob& job, const TracedSize& size);

/// Pruning, then the bandit of Zeus's simulator, which needs two observations of each size.
class ZeusChooser {
 public:
  /// \param job  must outlive this
  ZeusChooser(const zeus::RecurringJob& job, std::uint64_t seed);

  /// Of a run whose result comes next, but for runs that were not chosen here.
  Result<int> next();
  /// While pruning, only the result of the size that was asked for steers it; of other runs it is
  /// kept for the bandit.
  void observe(int size, double cost, bool converged);

 private:
  const zeus::RecurringJob& job_;
  zeus::Draws draws_;
  std::optional<int> awaited_;  ///< by pruning
  std::map<int, std::vector<zeus::ExplorationResult>> explored_;
  std::map<int, std::vector<double>> rewards_;
};

}  // namespace harpe::lab
