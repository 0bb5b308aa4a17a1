#pragma once
/// \file
/// Detector of drift in a job that was profiled: it compares the median of the newest 15 steps with
/// the step time of the profile at the setting in force. Heat, longer sequences or another batch
/// size move the median for good; a straggling step or a validation does not. Pure; not
/// thread-safe.

#include "harpe/base/statistics.h"
#include "harpe/base/units.h"

namespace harpe::zeus {

class DriftDetector {
 public:
  /// \param expected   of a step, above 0
  /// \param tolerance  largest relative deviation that is no drift; must be above the profile's
  ///                   error
  explicit DriftDetector(Seconds expected, double tolerance = 0.05)
      : expected_(expected), tolerance_(tolerance) {}

  /// Adds the time of a step. Returns true if the job has drifted and should be profiled again.
  bool add(Seconds step);

 private:
  Seconds expected_;
  double tolerance_;
  RunningMedian median_;
  int steps_ = 0;         ///< added
  int steps_beyond_ = 0;  ///< in a row, whose median was beyond the tolerance
};

}  // namespace harpe::zeus
