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

/// What the objectives of plans under `options` are relative to, by two of these plans. Late clocks
/// may rule out T_min: then the fastest plan stands for it.
ReferenceTimes reference_times(const Frontier& frontier, const Plan& fastest, const Plan& all_max,
                               const PlanOptions& options);

/// \param reference  see `reference_times`
/// \returns  `kInfeasible` where no plan meets the objective; the error says what is possible
Result<Plan> plan_for(const Frontier& frontier, const Objective& objective,
                      const ReferenceTimes& reference, const PlanOptions& options);

}  // namespace harpe
