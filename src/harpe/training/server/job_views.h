#pragma once
/// \file
/// What is known of jobs: lists, plans, profiles, logs. What may be long is written on another
/// thread, where it delays no other job.

#include <optional>
#include <string>

#include "harpe/training/server/job_request.h"

namespace harpe::training {

/// All jobs, by pages. \param only_job  the one that the client may know of
void list_jobs(ServerContext& context, const net::HttpRequest& request, const net::Reply& reply,
               const std::optional<std::string>& only_job);

void give_specification(const JobRequest& asked);
void give_profile(const JobRequest& asked);
void give_frontier(const JobRequest& asked);
void give_plans(const JobRequest& asked);
void give_plan(const JobRequest& asked);
void give_certificate(const JobRequest& asked);
/// The energy that the job has used.
void give_energy(const JobRequest& asked);
/// Whether it is asked to pause, for those who start training.
void give_pause(const JobRequest& asked);
void give_log(const JobRequest& asked);

}  // namespace harpe::training
