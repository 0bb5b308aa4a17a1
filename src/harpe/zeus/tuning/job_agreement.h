#pragma once
/// \file
/// What the tuners of a job's processes tell one another. A process that can go on no longer keeps
/// taking part until the others have heard of it: a reduction that one leaves out hangs the job.

#include <span>

#include "harpe/base/result.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/tuning/peers.h"

namespace harpe {

class JobAgreement {
 public:
  /// \param peers  null: this process is alone, and agrees with itself
  explicit JobAgreement(Peers* peers) : peers_(peers) {}

  bool is_alone() const { return peers_ == nullptr; }

  /// Over all processes, in place. Fails everywhere alike where one of them is lost; with what the
  /// reduction said where that failed.
  /// \param lost  this process can go on no longer
  Status exchange(bool lost, std::span<double> sums, std::span<double> maxima);

  /// Whether all processes have the same numbers. Fails as `exchange`.
  Result<bool> same(bool lost, std::span<const double> numbers);

 private:
  Peers* peers_;
};

/// A number that differs between knobs that differ, as good as ever; exact in a double.
double digest_of(const Knob& knob);

}  // namespace harpe
