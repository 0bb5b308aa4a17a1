#pragma once
/// \file
/// What the cluster of a training job draws, emits and pays, from the server's response. Pure. Only
/// for `.cc` files: the JSON library is large.

#include <optional>
#include <string>

#include "harpe/command/json_output.h"
#include "harpe/plan_cli/cluster.h"

namespace harpe {

/// Returns the mean of the plans in force on the job's pipelines, and all-max with the same wait
/// beside the planned computations. nullopt if the job has no plan.
/// \param status  as `job_status_json` gives it
std::optional<ClusterCosts> job_costs(const Json& status);

/// Returns the sentences of `cluster_text` for the plans in force, and what was measured so far.
/// \param terms  all but `pipelines`, which is the job's
std::string job_bill_text(const Json& status, ClusterTerms terms);
/// Returns the object of `cluster_json` with "measured"; null if the job has no plan.
Json job_bill_json(const Json& status, ClusterTerms terms);

}  // namespace harpe
