#include "harpe/server/characterize_job.h"

#include <algorithm>
#include <utility>

#include "harpe/pipeline/pipeline.h"

namespace harpe {
namespace {

/// Plans with late clocks take a search each, however quick it is to be.
constexpr int kFirstSwitchingPlans = 20;

Characterized with_json(PlanTable plans, std::optional<Frontier> frontier) {
  std::string json = plans.stored_text();
  return {std::move(plans), std::move(json), std::move(frontier)};
}

PlanTable::Options options_of(const JobSpec& spec, Effort effort, std::function<bool()> wanted) {
  return {.plans = plans_of(spec),
          .plan = {.effort = effort,
                   .switch_latency = spec.switch_latency,
                   .min_dwell = spec.min_dwell},
          .wanted = std::move(wanted)};
}

Result<Frontier> frontier_of(const JobSpec& spec, const CharacterizeRequest& request,
                             const std::string& id, const Progress& progress) {
  const Result<Pipeline> pipeline = Pipeline::build(spec.schedule, spec.transfers);
  if (!pipeline.ok()) return pipeline.error();
  return characterize(*pipeline, request.profile,
                      {.blocking_power = request.blocking_power,
                       .gpus_per_stage = spec.shape.tensor,
                       .job = id,
                       .progress = progress});
}

}  // namespace

Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::string& id, std::atomic<double>& fraction,
                               std::function<bool()> wanted) {
  const auto failed = [](Error error) { return Characterized{std::move(error), {}, {}}; };
  constexpr double kShareOfFrontier = 0.5;
  const Result<Frontier> frontier = frontier_of(
      spec, request, id, [&fraction](double done) { fraction = done * kShareOfFrontier; });
  if (!frontier.ok()) return failed(frontier.error());
  PlanTable::Options options = options_of(spec, Effort::kQuick, std::move(wanted));
  if (options.plan.switching()) options.plans = std::min(options.plans, kFirstSwitchingPlans);
  Result<PlanTable> plans = PlanTable::build(*frontier, options, [&fraction](double done) {
    fraction = kShareOfFrontier + done * (1 - kShareOfFrontier);
  });
  if (!plans.ok()) return failed(std::move(plans).error());
  return with_json(*std::move(plans), *frontier);
}

Characterized better_plans(const JobSpec& spec, const CharacterizeRequest& request,
                           const std::string& id, std::optional<Frontier> frontier,
                           const PlanTable& first, std::atomic<double>& fraction,
                           std::function<bool()> wanted) {
  if (!frontier) {
    Result<Frontier> again = frontier_of(spec, request, id, {});
    if (!again.ok()) return {std::move(again).error(), {}, {}};
    frontier = *std::move(again);
  }
  Result<PlanTable> plans =
      PlanTable::build(*frontier, options_of(spec, Effort::kFull, std::move(wanted)),
                       [&fraction](double done) { fraction = done; });
  if (!plans.ok()) return {std::move(plans).error(), {}, {}};
  return with_json(PlanTable::merged(first, *plans), {});
}

}  // namespace harpe
