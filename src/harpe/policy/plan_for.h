#pragma once
/// \file
/// The plan of a frontier for an objective.

#include "harpe/base/result.h"
#include "harpe/frontier/frontier.h"
#include "harpe/objective/objective.h"

namespace harpe {

/// \param reference  T_min and the all-max time under `options`
/// \returns  `kInfeasible` where no plan meets the objective; the error says what is possible
Result<Plan> plan_for(const Frontier& frontier, const Objective& objective,
                      const ReferenceTimes& reference, const PlanOptions& options);

}  // namespace harpe
