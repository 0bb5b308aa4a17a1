#pragma once
/// \file
/// Communication among the tuners of a job's processes. A process that cannot continue keeps taking
/// part until the others know of it, because a reduction that one process omits hangs the job.

#include <span>
#include <string>

#include "harpe/base/result.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

class JobAgreement {
 public:
  /// \param peers  null if this process is alone; it then agrees with itself
  explicit JobAgreement(Peers* peers) : peers_(peers) {}

  bool is_alone() const { return peers_ == nullptr; }

  /// Marks this process as lost. The other processes learn of it in the next exchange.
  void lose(const std::string& why) { lost_ = why; }
  bool is_lost() const { return !lost_.empty(); }
  const std::string& why_lost() const { return lost_; }  ///< empty unless it is lost

  /// Reduces numbers over all processes, in place. Fails in all processes alike if one of them is
  /// lost, and with the reduction's error if the reduction fails.
  Status exchange(std::span<double> sums, std::span<double> maxima);

  /// Returns true if all processes have the same numbers. Fails like `exchange`.
  Result<bool> same(std::span<const double> numbers);

 private:
  Peers* peers_;
  std::string lost_;
};

/// Returns a hash of a knob, exact in a double. Hashes of different knobs almost always differ.
double digest_of(const Knob& knob);

}  // namespace harpe::zeus
