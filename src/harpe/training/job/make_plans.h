#pragma once
/// \file
/// The work behind a `CharacterizeRequest`.

#include <cstdint>
#include <functional>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/job.h"

namespace harpe::training {

/// What plans are made for: the schedule with what stages do beside.
Result<Pipeline> planned_pipeline(const JobSpec& spec);

/// How the plans of the job are made.
/// \param profile  of the frontier
PlanOptions plan_options(const JobSpec& spec, const CharacterizeRequest& request,
                         const Profile& profile, Effort effort = Effort::kFull);

/// The frontier of one pipeline of the job, by the profile of the request with its reserve.
/// \param pipeline  `planned_pipeline`
Result<Frontier> characterize(const JobSpec& spec, const Pipeline& pipeline,
                              const CharacterizeRequest& request, const Progress& progress = {});

/// Plans along it, counted by the profile that the request compares with.
/// \param most  plans; fewer where the specification or the request says so
Result<plan::PlanTable> make_plans(const JobSpec& spec, const CharacterizeRequest& request,
                                   const Frontier& frontier, Effort effort, int most,
                                   const std::function<bool()>& wanted = {},
                                   const Progress& progress = {});

/// The plan for the request's objective alone, by a search that goes on (see `PlanOptions`), and
/// the fastest. The same number of windows gives the same plan.
Result<plan::PlanTable> search_plan(const JobSpec& spec, const CharacterizeRequest& request,
                                    const Frontier& frontier, std::int64_t windows,
                                    const std::function<bool(const SearchProgress&)>& go_on);

}  // namespace harpe::training
