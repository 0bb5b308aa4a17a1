#include "harpe/training/server/plan_document.h"

#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/make_plans.h"

namespace harpe {
namespace {

struct PlannedAgain {
  Frontier frontier;
  Plan plan;
  PlanOptions options;
};

Result<PlannedAgain> planned_again(const JobSpec& spec, const PlanInForce& in_force) {
  const Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  const Frontier frontier = HARPE_TRY(characterize(spec, pipeline, in_force.made_from));
  const PlanOptions options = plan_options(spec, in_force.made_from, frontier.profile());
  Plan plan = HARPE_TRY(
      frontier.plan_of_clocks(in_force.clocks, in_force.wait_until, options, in_force.knobs));
  return PlannedAgain{.frontier = frontier, .plan = std::move(plan), .options = options};
}

}  // namespace

Result<std::string> plan_document(const JobSpec& spec, const PlanInForce& in_force) {
  const PlannedAgain again = HARPE_TRY(planned_again(spec, in_force));
  return plan_json(again.plan);
}

Result<std::string> certificate_document(const JobSpec& spec, const PlanInForce& in_force) {
  const PlannedAgain again = HARPE_TRY(planned_again(spec, in_force));
  const Certificate certificate =
      HARPE_TRY(again.frontier.certificate(again.plan.iteration_time, again.options));
  return certificate_json(certificate);
}

}  // namespace harpe
