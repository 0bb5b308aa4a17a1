#pragma once
/// \file
/// Harpe's own routes, /v1/jobs and below: registering, assignments, reports, events, stragglers,
/// objectives, what is known of a job.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/training/server/api.h"

namespace harpe::training {

/// All jobs.
inline constexpr std::string_view kJobsPath = "/v1/jobs";

/// The part of /v1/jobs/{id}/... that names the job, without escapes; none for other paths.
std::optional<std::string> job_of_path(std::string_view path);

/// One part of a path, without escapes; a broken one is left as it is.
std::string path_part(std::string_view part);

/// The methods of a path's route: "GET, PUT"; empty: there is no such route here.
std::string methods_of_jobs(std::string_view path);

/// Whether a request is about what a job is now, which has to be in memory then.
bool needs_job_in_memory(const net::HttpRequest& request);

/// False when the path is none of these. The method is one of the path's. \param only_job  the one
/// job that the client may know of
bool handle_jobs(ServerContext& context, net::HttpRequest& request, const net::Reply& reply,
                 const std::optional<std::string>& only_job);

/// Where a job stands, with its id, how far its plans are and, if it is short, what it was
/// registered with.
std::string status_text(const ServerContext& context, const HostedJob& job);

}  // namespace harpe::training
