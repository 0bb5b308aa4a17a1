#pragma once
/// \file
/// Time that every stage spends beside its computations, at any clock: loading data, reducing
/// gradients, the optimizer's step.
///
///   harpe::FixedTimes times;
///   times.optimizer = {0.02_s, 0.02_s};  // of two stages
///   const auto full = harpe::with_fixed_times(schedule, times);

#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {

/// Seconds of each stage, or none. Stages with 0 s have no such instruction.
struct FixedTimes {
  std::vector<Seconds> load;       ///< ahead of every forward
  std::vector<Seconds> reduce;     ///< once an iteration, after the last computation
  std::vector<Seconds> optimizer;  ///< once an iteration, at its end

  bool none() const { return load.empty() && reduce.empty() && optimizer.empty(); }
  friend bool operator==(const FixedTimes&, const FixedTimes&) = default;
};

/// The schedule with an instruction for each of them. Diagnostics: another number of stages, a time
/// that is negative or not finite, a stage that has such instructions already.
Result<Schedule> with_fixed_times(Schedule schedule, const FixedTimes& times);

}  // namespace harpe
