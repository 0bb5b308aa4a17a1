#pragma once
/// \file
/// One training of a recurring job with one batch size, from the moment the size was given out.

#include <string>

#include "harpe/base/units.h"
#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {

struct Trial {
  enum class Kind : unsigned char {
    kExploration,   ///< its result is needed to know which sizes are worth trying
    kConcurrent,    ///< given out while such a result was still missing
    kExploitation,  ///< chosen among those that are known (Zeus: MAB)
  };
  enum class Status : unsigned char {
    kDispatched,
    kSucceeded,  ///< it came to an end by its own reports, whether or not it converged
    kFailed,     ///< given up, taken back, or not heard of while its lease lasted
  };

  int number = 0;  ///< from 1, within the job
  int batch_size = 0;
  Kind kind = Kind::kExploration;
  Status status = Status::kDispatched;
  Seconds begun{};
  Seconds heard{};  ///< last report; `begun` before the first
  Seconds lease{};  ///< it may be silent for so long after `heard`
  // As it was reported last, since it began:
  int epochs = 0;
  Seconds time{};
  Joules energy{};
  Seconds first_time{};  ///< of that, in the first epoch, in which limits are profiled
  Joules first_energy{};
  bool converged = false;  ///< reached its target within its cost bound
  /// By Harpe's algorithm, while it is under way and of the newest that converged; else empty.
  MetricCurve metrics = {};

  bool has_result() const { return status == Status::kSucceeded; }
  friend bool operator==(const Trial&, const Trial&) = default;
};

/// Without its metrics.
std::string trial_json(const Trial& trial);

}  // namespace harpe::zeus
