#pragma once
/// \file
/// From what a job has measured to its plans: what the workers of the server do. May be called at
/// once from several threads.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/training/job/job.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe {

struct Characterized {
  Result<PlanTable> plans;
  std::string json;                  ///< of the plans, as the store keeps them
  std::optional<Frontier> frontier;  ///< in which better plans may be searched
};

/// The first plans to be had: close to the best, and hundreds of them in less than a second.
/// \param known  the plans of the job, to which a request for its objective alone adds one
/// \param fraction  how much is done, from 0 to 1; \param wanted  asked now and then: false ends it
Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::shared_ptr<const PlanTable>& known,
                               std::atomic<double>& fraction, const std::function<bool()>& wanted);

/// As good as they get, some tens of milliseconds each, and nowhere worse than `first`. \param
/// frontier  of the same request; none: it is made again
Characterized better_plans(const JobSpec& spec, const CharacterizeRequest& request,
                           std::optional<Frontier> frontier, const PlanTable& first,
                           std::atomic<double>& fraction, const std::function<bool()>& wanted);

}  // namespace harpe
