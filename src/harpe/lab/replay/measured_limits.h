#pragma once
/// \file
/// The measured limits of a traced job by batch size: the limits that the first epoch of a run
/// measures (power_limit/limit_plan.h), their cost, and the limit of its other epochs. Limits that
/// were not measured are never used.
///
/// Not thread-safe.

#include <cstddef>
#include <map>
#include <vector>

#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/power_limit/limit_plan.h"

namespace harpe::lab {

class MeasuredLimits {
 public:
  /// \param job  must outlive this object
  explicit MeasuredLimits(const TracedJob& job);

  /// Measures limits in the first epoch of a run. Returns that epoch: the mean over the limits
  /// measured in it, or the epoch under the best limit if none is worth measuring.
  /// \param epochs  remaining with this size
  TracedLimit first_epoch(const TracedSize& size, double epochs);
  /// Returns the cheapest measured limit. Must be called after `first_epoch`.
  const TracedLimit& best(const TracedSize& size) const;
  /// Returns the number of limits measured with a size.
  std::size_t count(int batch_size) const;

 private:
  /// The state in which no limit was worth measuring. As long as there are no further epochs and no
  /// new measurements, none becomes worth it.
  struct Settled {
    std::size_t measured = 0;  ///< number with all sizes
    double epochs = -1;
  };

  std::vector<zeus::SizeProfile> others(int batch_size) const;

  const TracedJob& job_;
  zeus::ScoreWeights weights_;
  std::map<int, zeus::SizeProfile> profiles_;
  std::map<int, Settled> settled_;
  std::size_t measured_ = 0;
};

}  // namespace harpe::lab
