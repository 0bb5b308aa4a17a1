#include "harpe/training/carbon_control/job_pace_curve.h"

#include <algorithm>

namespace harpe::training {

Seconds JobPaces::fastest() const {
  Seconds shortest = iterations.front().time;
  for (const carbon::PieceCost& one : iterations) shortest = std::min(shortest, one.time);
  return shortest;
}

JobPaces job_paces(const plan::PlanTable& plans, const JobPacesOf& of) {
  JobPaces paces{.iterations = {}, .gpus = of.gpus};
  const double pipelines = of.pipelines;
  for (const plan::TablePlan& plan : plans.plans()) {
    const Seconds pipeline = std::max(plan.time, of.slowest_pipeline);
    const Joules waiting = plans.waiting_power() * (pipeline - plan.time + of.overhead);
    paces.iterations.push_back(
        {.time = pipeline + of.overhead, .energy = (plan.energy + waiting) * pipelines});
  }
  return paces;
}

}  // namespace harpe::training
