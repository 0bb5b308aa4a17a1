#include "harpe/server/characterize_job.h"

#include <algorithm>
#include <utility>

#include "harpe/pipeline/pipeline.h"

namespace harpe {
namespace {

/// Plans with late clocks take a search each, however quick it is to be.
constexpr int kFirstSwitchingPlans = 20;

Characterized with_json(PlanTable plans, std::optional<Frontier> frontier) {
  std::string json = plans.json();
  return {std::move(plans), std::move(json), std::move(frontier)};
}

PlanTable::Options options_of(const JobSpec& spec, Effort effort, std::function<bool()> wanted) {
  return {.plans = spec.plans,
          .plan = {.effort = effort,
                   .switch_latency = spec.switch_latency,
                   .min_dwell = spec.min_dwell},
          .wanted = std::move(wanted)};
}

}  // namespace

Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::string& id, std::atomic<double>& fraction,
                               std::function<bool()> wanted) {
  const auto failed = [](Error error) { return Characterized{std::move(error), {}, {}}; };
  const Result<Pipeline> pipeline = Pipeline::build(spec.schedule, spec.transfers);
  if (!pipeline.ok()) return failed(pipeline.error());
  constexpr double kShareOfFrontier = 0.5;
  const Result<Frontier> frontier =
      characterize(*pipeline, request.profile,
                   {.blocking_power = request.blocking_power,
                    .gpus_per_stage = spec.shape.tensor,
                    .job = id,
                    .progress = [&fraction](double done) { fraction = done * kShareOfFrontier; }});
  if (!frontier.ok()) return failed(frontier.error());
  PlanTable::Options options = options_of(spec, Effort::kQuick, std::move(wanted));
  if (options.plan.switching()) options.plans = std::min(options.plans, kFirstSwitchingPlans);
  Result<PlanTable> plans = PlanTable::build(*frontier, options, [&fraction](double done) {
    fraction = kShareOfFrontier + done * (1 - kShareOfFrontier);
  });
  if (!plans.ok()) return failed(std::move(plans).error());
  return with_json(*std::move(plans), *frontier);
}

Characterized better_plans(const JobSpec& spec, const Frontier& frontier, const PlanTable& first,
                           std::atomic<double>& fraction, std::function<bool()> wanted) {
  Result<PlanTable> plans =
      PlanTable::build(frontier, options_of(spec, Effort::kFull, std::move(wanted)),
                       [&fraction](double done) { fraction = done; });
  if (!plans.ok()) return {std::move(plans).error(), {}, {}};
  return with_json(PlanTable::merged(first, *plans), {});
}

}  // namespace harpe
