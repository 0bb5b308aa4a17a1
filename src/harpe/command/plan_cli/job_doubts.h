#pragma once
/// \file
/// Checks of a job's numbers for probable mistakes: impossible values are refused, unlikely ones
/// are warned of, each with the likely meaning.

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::command {

/// Checks blocking power against that of computations, and transfers, loading and clock changes
/// against the longest computation. Refuses blocking power above any computation's, or under 1 W
/// but not 0, and transfers and loading of over 20 times the longest computation.
Status check_inputs(const PlanJob& job, const PlanInputs& inputs, Console& console);

/// Checks the objective against the frontier. Refuses a deadline or slowdown beyond the least
/// energy if it is over 5 times the fastest iteration.
Status check_objective(const PlanJob& job, const PlanInputs& inputs, const Frontier& frontier,
                       Console& console);

}  // namespace harpe::command
