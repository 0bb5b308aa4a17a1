#include "harpe/plan/policy/plan_for.h"

namespace harpe {

ReferenceTimes reference_times(const Frontier& frontier, const Plan& fastest, const Plan& all_max,
                               const PlanOptions& options) {
  return {.fastest = options.switching() ? fastest.iteration_time : frontier.min_time(),
          .all_max = all_max.iteration_time};
}

Result<Plan> plan_for(const Frontier& frontier, const Objective& objective,
                      const ReferenceTimes& reference, const PlanOptions& options) {
  if (const auto time = time_of(objective, reference)) {
    return objective.is_straggler() ? frontier.plan_for_straggler(*time, options)
                                    : frontier.plan(*time, options);
  }
  switch (objective.kind) {
    case Objective::Kind::kPowerCap:
      return frontier.plan_for_power_cap(Watts{objective.value}, options);
    case Objective::Kind::kLeastEnergy:
    case Objective::Kind::kSlowdown:
    case Objective::Kind::kDeadline:
    case Objective::Kind::kStragglerTime:
    case Objective::Kind::kStragglerFactor:
      break;  // objectives of a time are planned above
  }
  return frontier.least_energy_plan(options);
}

}  // namespace harpe
