#include "harpe/job/make_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harpe/job/job_size.h"

namespace harpe {
namespace {

/// Instructions at any but their highest clock take `reserve` longer.
Profile with_reserve(const Profile& profile, double reserve) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    if (is_fixed_time(entry.kind)) continue;
    for (OperatingPoint& point : entry.points)
      if (point.clock != entry.points.back().clock) point.time = point.time * (1 + reserve);
  }
  return profile.with_entries(std::move(entries));
}

}  // namespace

Result<Frontier> characterize(const JobSpec& spec, const Pipeline& pipeline,
                              const CharacterizeRequest& request, const Progress& progress) {
  return characterize(
      pipeline,
      request.reserve > 0 ? with_reserve(request.profile, request.reserve) : request.profile,
      {.blocking_power = request.blocking_power,
       .gpus_per_stage = spec.shape.tensor,
       .job = spec.name,
       .progress = progress});
}

Result<PlanTable> make_plans(const JobSpec& spec, const CharacterizeRequest& request,
                             const Frontier& frontier, Effort effort, int most,
                             const std::function<bool()>& wanted, const Progress& progress) {
  Result<PlanTable> plans = PlanTable::build(frontier,
                                             {.plans = std::min(most, plans_of(spec)),
                                              .times = request.times,
                                              .plan = {.effort = effort,
                                                       .switch_latency = spec.switch_latency,
                                                       .min_dwell = spec.min_dwell},
                                              .wanted = wanted},
                                             progress);
  if (plans.ok() && (request.reserve > 0 || request.compare_with))
    plans->recount(spec.schedule, request.compare_with.value_or(request.profile));
  return plans;
}

}  // namespace harpe
