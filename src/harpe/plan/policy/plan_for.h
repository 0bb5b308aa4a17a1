#pragma once
/// \file
/// The plan of a frontier for an objective.
///
///   const auto reference = harpe::reference_times(frontier, *frontier.fastest_plan(),
///                                                 frontier.all_max(), {});
///   const auto plan = harpe::plan_for(frontier, objective, reference, {});

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/objective/objective.h"

namespace harpe {

/// Returns the reference times of objectives for plans under `options`, given two of these plans.
/// If clocks change late, T_min may be out of reach: then the time of the fastest plan replaces it.
ReferenceTimes reference_times(const Frontier& frontier, const Plan& fastest, const Plan& all_max,
                               const PlanOptions& options);

/// Returns the plan for an objective. If no plan meets it, fails with `kInfeasible`; the error
/// names what is possible.
/// \param reference  see `reference_times`
Result<Plan> plan_for(const Frontier& frontier, const Objective& objective,
                      const ReferenceTimes& reference, const PlanOptions& options);

}  // namespace harpe
