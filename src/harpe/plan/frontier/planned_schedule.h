#pragma once
/// \file
/// The lists of a plan aligned with the lists of its schedule, for the check of the plan.

#include <optional>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/rules.h"

namespace harpe::plan {

/// A schedule as a plan runs it.
struct PlannedSchedule {
  /// The schedule with the fixed-time instructions that the plan adds: `load` before a forward,
  /// `reduce` and `optimizer` after all computations.
  Schedule schedule;
  /// The entries first[s][n] to first[s][n + 1] - 1 of the plan's list of stage s are instruction
  /// n: its parts, each after the `switch` that allows for its late change, if any.
  std::vector<std::vector<int>> first;

  int first_entry(Position at) const { return first[at.stage][at.index]; }
};

/// Returns the schedule that the plan names, generated for the sizes of the plan. Fails if no
/// schedule has that name, or if the plan has fewer instructions per stage than micro-batches.
Result<Schedule> named_schedule(const Plan& plan);

/// Aligns a plan with a schedule. Returns nullopt if the plan does not run this schedule: its sizes
/// or its order differ, or instructions are missing, extra, or fused in a different way.
/// Diagnostics name the first difference on each stage.
/// \param profile  with rows for each chunk of the schedule, see `with_chunks`
std::optional<PlannedSchedule> line_up(const Plan& plan, const Schedule& schedule,
                                       const Profile& profile, Diagnostics& diagnostics);

}  // namespace harpe::plan
