#pragma once
/// \file
/// Harpe's own routes below /v1/jobs: registration, assignments, reports, events, stragglers,
/// objectives and the status of jobs.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/training/server/api.h"

namespace harpe::training {

/// The path of the list of jobs.
inline constexpr std::string_view kJobsPath = "/v1/jobs";

/// Returns the part of /v1/jobs/{id}/... that names the job, unescaped; nullopt for other paths.
std::optional<std::string> job_of_path(std::string_view path);

/// Returns one part of a path, unescaped; a malformed one is returned unchanged.
std::string path_part(std::string_view part);

/// Returns the methods of a path's route: "GET, PUT"; empty if there is no such route here.
std::string methods_of_jobs(std::string_view path);

/// Returns true if a request needs the current state of its job, which must then be in memory.
bool needs_job_in_memory(const net::HttpRequest& request);

/// Handles a request whose method the path allows. Returns false if the path is not one of these
/// routes.
/// \param only_job  the only job that the client may access
bool handle_jobs(ServerContext& context, net::HttpRequest& request, const net::Reply& reply,
                 const std::optional<std::string>& only_job);

/// Returns the status of a job with its id, the progress of its plans and, if it is short, the
/// specification it was registered with.
std::string status_text(const ServerContext& context, const HostedJob& job);

}  // namespace harpe::training
