#pragma once
/// \file
/// What a plan runs of a schedule: its lists lined up with those of the schedule, for its check.

#include <optional>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/rules.h"

namespace harpe::plan {

/// A schedule as a plan runs it.
struct PlannedSchedule {
  /// With the fixed-time instructions that the plan adds: `load` ahead of a forward, `reduce` and
  /// `optimizer` behind all computations.
  Schedule schedule;
  /// Entries of the plan's list that are instruction n of stage s: from first[s][n] up to, and
  /// without, first[s][n + 1]. They are its parts, each behind what its `switch` may cost.
  std::vector<std::vector<int>> first;

  int first_entry(Position at) const { return first[at.stage][at.index]; }
};

/// The schedule by whose name a plan goes, generated for its sizes; fails when there is none of
/// that name.
Result<Schedule> named_schedule(const Plan& plan);

/// Returns nullopt if the plan does not run this schedule: other sizes, another order, instructions
/// that are missing or too many, or that are not fused as the schedule has them. Diagnostics name
/// the first difference on each stage.
/// \param profile  with rows for each chunk of the schedule, see `with_chunks`
std::optional<PlannedSchedule> line_up(const Plan& plan, const Schedule& schedule,
                                       const Profile& profile, Diagnostics& diagnostics);

}  // namespace harpe::plan
