#pragma once
/// \file
/// Plans whose clocks somebody else chose: another planner, a plan file, a measurement.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/frontier/frontier.h"
#include "harpe/frontier/plan.h"
#include "harpe/pipeline/pipeline.h"
#include "harpe/profile/profile.h"

namespace harpe {

struct ClockPlanOptions {
  PerStage<Watts> blocking_power = Watts{0};  ///< per GPU
  int gpus_per_stage = 1;
  std::string job = {};
  /// Accept clocks that were not measured, between ones that were, see `at_clock`.
  bool interpolate = false;
};

/// The plan that runs `clocks` as early as possible. Its iteration time is its makespan, its lower
/// bound not known.
///
/// \param clocks  one list a stage, one clock for every computation of the stage in its order.
/// Fixed-time instructions take the first point of the profile, or no time where it has none.
/// Faults name every list of the wrong length and every clock that the profile lacks.
Result<Plan> plan_from_clocks(const Pipeline& pipeline, const Profile& profile,
                              const std::vector<std::vector<Megahertz>>& clocks,
                              const ClockPlanOptions& options);

/// How many instructions of `plan` run at a clock that `profile` lacks, though it has others for
/// them.
std::size_t unmeasured_clocks(const Plan& plan, const Profile& profile);

/// Time and energy at `clock`. Between measured clocks both are interpolated linearly in 1 / clock,
/// in which the time of a computation is nearly linear; outside them the nearest holds. Nothing
/// when `points` (by rising clock) is empty.
std::optional<OperatingPoint> at_clock(std::span<const OperatingPoint> points, Megahertz clock);

/// The profile with data loading as a part of each forward: its time grows by `load` of its stage,
/// its energy by the blocking power drawn in it. So a forward's input may arrive before it loads,
/// as training frameworks do it, where a `load` instruction in the list would hold up a blocking
/// receive.
Profile with_loading(const Profile& profile, const PerStage<Seconds>& load,
                     const PerStage<Watts>& blocking_power);

}  // namespace harpe
