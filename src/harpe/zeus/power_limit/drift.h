#pragma once
/// \file
/// Whether a job still runs as it was profiled: the median of its newest 15 steps against the
/// step time of the profile at the setting in force. Heat, longer sequences or another batch size
/// move it for good; a straggling step or a validation does not. Pure; not thread-safe.

#include "harpe/base/statistics.h"
#include "harpe/base/units.h"

namespace harpe::zeus {

class DriftDetector {
 public:
  /// \param expected   of a step, above 0
  /// \param tolerance  the fraction by which it may deviate for good: above the profile's error
  explicit DriftDetector(Seconds expected, double tolerance = 0.05)
      : expected_(expected), tolerance_(tolerance) {}

  /// A step took that long; whether the job has drifted: time to profile again.
  bool add(Seconds step);

 private:
  Seconds expected_;
  double tolerance_;
  RunningMedian median_;
  int steps_ = 0;         ///< seen
  int steps_beyond_ = 0;  ///< one after another whose median was beyond the tolerance
};

}  // namespace harpe::zeus
