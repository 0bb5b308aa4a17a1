#pragma once
/// \file
/// The processes of a job that train in step, each with GPUs of its own, as a tuner in each of them
/// needs the others: by the job's own reductions, so that nothing has to be set up beside them.
///
/// What is reduced is alike everywhere afterwards, and a tuner decides by that alone; so all of
/// them decide alike, at the same step. Every process must call `reduce` at the same steps, in the
/// same order, with as many values, and on_step_begin and on_epoch_end as often as the others.

#include <span>

#include "harpe/base/result.h"

namespace harpe::zeus {

enum class Reduction : unsigned char { kSum, kMax };

class Peers {
 public:
  virtual ~Peers() = default;
  /// Over all processes, in place. Waits for the slowest. A failure ends the tuning of this process
  /// for good.
  virtual Status reduce(Reduction how, std::span<double> values) = 0;
};

}  // namespace harpe::zeus
