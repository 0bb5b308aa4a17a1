#pragma once
/// \file
/// Time that every stage spends outside its computations, at any clock: loading data, reducing
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

/// Seconds per stage, or empty. A stage with 0 s has no such instruction.
struct FixedTimes {
  std::vector<Seconds> load;       ///< before every forward
  std::vector<Seconds> reduce;     ///< once an iteration, after the last computation
  std::vector<Seconds> optimizer;  ///< once an iteration, at its end

  bool none() const { return load.empty() && reduce.empty() && optimizer.empty(); }
  friend bool operator==(const FixedTimes&, const FixedTimes&) = default;
};

/// Returns the schedule with an instruction for each fixed time. Diagnostics: a wrong number of
/// stages, a time that is negative or not finite, a stage that already has such instructions.
Result<Schedule> with_fixed_times(Schedule schedule, const FixedTimes& times);

}  // namespace harpe
