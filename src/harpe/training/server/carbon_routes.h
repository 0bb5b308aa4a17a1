#pragma once
/// \file
/// Routes of carbon control: what this server offers, and by which terms a job moves.

#include <string_view>

#include "harpe/training/server/job_request.h"

namespace harpe::training {

inline constexpr std::string_view kCarbonSourcesPath = "/v1/carbon";
/// Of a path, after the job.
inline constexpr std::string_view kCarbonOfJob = "/carbon";

void give_carbon_sources(const ServerContext& context, const net::Reply& reply);
/// GET, PUT and DELETE of a job's terms.
void handle_job_carbon(const JobRequest& asked);
/// The member "carbon" of a job's status, in JSON; "null" where it has no terms.
std::string carbon_text(const CarbonPacer* pacer, const HostedJob& job);

}  // namespace harpe::training
