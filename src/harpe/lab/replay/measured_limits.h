#pragma once
/// \file
/// The limits of a traced job that were measured, size by size: what a run's first epoch measures
/// (power_limit/limit_plan.h), what that costs, and which limit its other epochs have. A limit that
/// was not measured is never used.
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
  /// \param job  must outlive this
  explicit MeasuredLimits(const TracedJob& job);

  /// A run begins. \param epochs  that are to come with this size
  /// \returns  its first epoch: the mean over the limits measured in it, or under the best where
  /// nothing is worth measuring any more
  TracedLimit first_epoch(const TracedSize& size, double epochs);
  /// Of the measured ones, the cheapest; after `first_epoch`.
  const TracedLimit& best(const TracedSize& size) const;
  /// How many were measured with a size.
  std::size_t count(int batch_size) const;

 private:
  /// When nothing more was worth measuring: with no more epochs and measurements, nothing is.
  struct Settled {
    std::size_t measured = 0;  ///< with all sizes
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
