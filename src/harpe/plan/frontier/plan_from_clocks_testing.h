#pragma once
/// \file
/// Plans with given clocks, for tests.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/frontier/at_setting.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/instruction/per_stage.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

struct ClockPlanOptions {
  PerStage<Watts> blocking_power = Watts{0};  ///< per GPU
  int gpus_per_stage = 1;
  std::string job = {};
  /// Accept unmeasured clocks between measured ones, see `at_setting`.
  bool interpolate = false;
  std::vector<std::vector<Knobs>> knobs = {};  ///< for each clock; empty for no knobs
};

/// Returns the plan that runs `clocks` as early as possible. Its iteration time is its makespan;
/// its lower bound is not known.
///
/// \param clocks  one list for each stage, one clock for each computation of the stage in its
/// order. Fixed-time instructions take the first point of the profile, or no time if it has none.
/// Diagnostics name every list of the wrong length and every clock that the profile lacks.
Result<Plan> plan_from_clocks(const Pipeline& pipeline, const Profile& profile,
                              const std::vector<std::vector<Megahertz>>& clocks,
                              const ClockPlanOptions& options);

}  // namespace harpe::plan
