#pragma once
/// \file
/// Numbers of a job that were probably meant otherwise: refused where they cannot be meant, warned
/// of where they may be, each with what is likely.

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::command {

/// Blocking power against that of computations; transfers, loading and clock changes against the
/// longest computation. Refuses blocking power above any computation's, and under 1 W but not 0;
/// transfers and loading of over 20 times the longest computation.
Status check_inputs(const PlanJob& job, const PlanInputs& inputs, Console& console);

/// The objective against the frontier. Refuses a deadline or slowdown past the least energy that is
/// over 5 times the fastest iteration.
Status check_objective(const PlanJob& job, const PlanInputs& inputs, const Frontier& frontier,
                       Console& console);

}  // namespace harpe::command
