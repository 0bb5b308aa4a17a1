#pragma once
/// \file
/// The computation of the plans for a `CharacterizeRequest`.

#include <cstdint>
#include <functional>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/job.h"

namespace harpe::training {

/// Returns the pipeline for which plans are made: the schedule with its fixed-time instructions.
Result<Pipeline> planned_pipeline(const JobSpec& spec);

/// Returns the options of the job's plans.
/// \param profile  of the frontier
PlanOptions plan_options(const JobSpec& spec, const CharacterizeRequest& request,
                         const Profile& profile, Effort effort = Effort::kFull);

/// Returns the frontier of one pipeline of the job, by the request's profile with its reserve.
/// \param pipeline  from `planned_pipeline`
Result<Frontier> characterize(const JobSpec& spec, const Pipeline& pipeline,
                              const CharacterizeRequest& request, const Progress& progress = {});

/// Makes plans along the frontier, with `compute_time` and `compute_energy` by `compare_with`.
/// \param most  most plans; fewer if the specification or the request requires it
Result<plan::PlanTable> make_plans(const JobSpec& spec, const CharacterizeRequest& request,
                                   const Frontier& frontier, Effort effort, int most,
                                   const std::function<bool()>& wanted = {},
                                   const Progress& progress = {});

/// Makes the plan for the request's objective by a longer search (see `PlanOptions`), and the
/// fastest plan. The same number of windows gives the same plan.
Result<plan::PlanTable> search_plan(const JobSpec& spec, const CharacterizeRequest& request,
                                    const Frontier& frontier, std::int64_t windows,
                                    const std::function<bool(const SearchProgress&)>& go_on);

}  // namespace harpe::training
