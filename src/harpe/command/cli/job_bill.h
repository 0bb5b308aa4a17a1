#pragma once
/// \file
/// Power, energy, CO2 and cost of a training job's cluster, from the server's response. Pure.
/// Include only in `.cc` files: the JSON library is large.

#include <optional>
#include <string>
#include <vector>

#include "harpe/command/command/json_output.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/plan_job.h"

namespace harpe::command {

/// Returns the terms of the job's specification as entries of a job file, without unknown members.
std::vector<JobEntry> cluster_entries(const Json& status);

/// Returns the mean cost of the plans in force on the job's pipelines, and of all-max and one clock
/// with the same time outside of computations. Nullopt if the job has no plan. One clock is missing
/// if pipelines wait for a straggler or the server does not report it.
/// \param status  in the form of `job_status_json`
std::optional<ClusterCosts> job_costs(const Json& status);

/// Returns the sentences of `cluster_text` for the plans in force, and the measurements so far.
/// \param terms  all except `pipelines`, which is the job's
std::string job_bill_text(const Json& status, carbon::ClusterTerms terms);
/// Returns the object of `cluster_json` with "measured"; null if the job has no plan.
Json job_bill_json(const Json& status, carbon::ClusterTerms terms);

}  // namespace harpe::command
