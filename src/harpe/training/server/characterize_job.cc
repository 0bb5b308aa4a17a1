#include "harpe/training/server/characterize_job.h"

#include <utility>

#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/make_plans.h"

namespace harpe {
namespace {

/// Plans with late clocks take a search each, however quick it is to be.
constexpr int kFirstSwitchingPlans = 20;

Characterized with_json(PlanTable plans, std::optional<Frontier> frontier) {
  std::string json = plans.stored_text();
  return {std::move(plans), std::move(json), std::move(frontier)};
}

Result<Frontier> frontier_of(const JobSpec& spec, const CharacterizeRequest& request,
                             const Progress& progress) {
  const Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  return characterize(spec, pipeline, request, progress);
}

}  // namespace

Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::shared_ptr<const PlanTable>& known,
                               std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  const auto failed = [](Error error) { return Characterized{std::move(error), {}, {}}; };
  constexpr double kShareOfFrontier = 0.5;
  const Result<Frontier> frontier =
      frontier_of(spec, request, [&fraction](double done) { fraction = done * kShareOfFrontier; });
  if (!frontier.ok()) return failed(frontier.error());
  const bool is_switching =
      spec.switch_latency.longest() > Seconds{0} || spec.min_dwell > Seconds{0};
  Result<PlanTable> plans = make_plans(
      spec, request, *frontier, Effort::kQuick, is_switching ? kFirstSwitchingPlans : spec.plans,
      wanted,
      [&fraction](double done) { fraction = kShareOfFrontier + done * (1 - kShareOfFrontier); });
  if (!plans.ok()) return failed(std::move(plans).error());
  if (request.only_objective && known != nullptr) plans = PlanTable::merged(*known, *plans);
  return with_json(*std::move(plans), *frontier);
}

Characterized better_plans(const JobSpec& spec, const CharacterizeRequest& request,
                           std::optional<Frontier> frontier, const PlanTable& first,
                           std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  if (!frontier) {
    Result<Frontier> again = frontier_of(spec, request, {});
    if (!again.ok()) return {std::move(again).error(), {}, {}};
    frontier = *std::move(again);
  }
  Result<PlanTable> plans = make_plans(spec, request, *frontier, Effort::kFull, spec.plans, wanted,
                                       [&fraction](double done) { fraction = done; });
  if (!plans.ok()) return {std::move(plans).error(), {}, {}};
  return with_json(PlanTable::merged(first, *plans), {});
}

}  // namespace harpe
