#include "harpe/training/job/make_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/counted_latency.h"
#include "harpe/training/job/job_size.h"

namespace harpe::training {
namespace {

/// Returns a profile whose instructions take `reserve` longer at any setting except all-max.
Profile with_reserve(const Profile& profile, double reserve) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    if (is_fixed_time(entry.kind)) continue;
    const InstructionSetting all_max = all_max_point(entry.points).setting();
    for (OperatingPoint& point : entry.points)
      if (point.setting() != all_max) point.time = point.time * (1 + reserve);
  }
  return profile.with_entries(std::move(entries));
}

/// Recounts the plans with the profile that iterations are compared with, if it is another one.
void recount(const JobSpec& spec, const CharacterizeRequest& request, const Frontier& frontier,
             plan::PlanTable& plans) {
  if (request.reserve > 0 || request.compare_with || spec.fit)
    plans.recount(frontier.pipeline().schedule(), request.compare_with.value_or(request.profile));
}

}  // namespace

Result<Pipeline> planned_pipeline(const JobSpec& spec) {
  Schedule schedule = HARPE_TRY(with_fixed_times(spec.schedule, spec.fixed_times));
  return Pipeline::build(std::move(schedule), spec.transfers);
}

Result<Frontier> characterize(const JobSpec& spec, const Pipeline& pipeline,
                              const CharacterizeRequest& request, const Progress& progress) {
  Profile profile = spec.fit ? fit_profile(request.profile) : request.profile;
  if (request.reserve > 0) profile = with_reserve(profile, request.reserve);
  return characterize(pipeline,
                      plan::with_fixed_time_rows(profile, pipeline.schedule(), spec.fixed_times,
                                                 request.blocking_power),
                      {.blocking_power = request.blocking_power,
                       .gpus_per_stage = spec.shape.tensor,
                       .job = spec.name,
                       .progress = progress});
}

PlanOptions plan_options(const JobSpec& spec, const CharacterizeRequest& request,
                         const Profile& profile, Effort effort) {
  return {.effort = effort,
          .switch_latency = plan::counted_latency(spec.switch_latency, request.client, profile)
                                .at_least(request.learned_latency),
          .min_dwell = spec.min_dwell};
}

Result<plan::PlanTable> make_plans(const JobSpec& spec, const CharacterizeRequest& request,
                                   const Frontier& frontier, Effort effort, int most,
                                   const std::function<bool()>& wanted, const Progress& progress) {
  const bool only_one = request.only_objective;
  plan::PlanTable plans = HARPE_TRY(plan::PlanTable::build(
      frontier,
      {.plans = only_one ? 0 : std::min(most, plans_of(spec)),
       .times = request.times,
       .objective = request.objective,
       .plan = plan_options(spec, request, frontier.profile(), only_one ? Effort::kFull : effort),
       .wanted = wanted},
      progress));
  recount(spec, request, frontier, plans);
  return plans;
}

Result<plan::PlanTable> search_plan(const JobSpec& spec, const CharacterizeRequest& request,
                                    const Frontier& frontier, std::int64_t windows,
                                    const std::function<bool(const SearchProgress&)>& go_on) {
  PlanOptions options = plan_options(spec, request, frontier.profile());
  options.search_windows = windows;
  options.go_on = go_on;
  plan::PlanTable plans = HARPE_TRY(plan::PlanTable::build(
      frontier, {.plans = 0, .objective = request.objective, .plan = std::move(options)}));
  recount(spec, request, frontier, plans);
  return plans;
}

}  // namespace harpe::training
