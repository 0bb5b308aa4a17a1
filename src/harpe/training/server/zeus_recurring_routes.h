#pragma once
/// \file
/// Zeus's batch size protocol for the recurring jobs of this server: /jobs, /jobs/batch_size,
/// /report, /trials. Compatible with Zeus's own client (release 0.16).

#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe::training {

bool is_zeus_recurring_path(std::string_view path);

/// Returns the job in the query or the body of a request; nullopt if there is none or it cannot be
/// read.
std::optional<std::string> job_of_zeus_recurring(const net::HttpRequest& request);

/// Adds an id, which begins with the job's prefix, to a registration without one.
void name_zeus_recurring_job(net::HttpRequest& request);

/// Returns false if the path is not one of these routes.
bool handle_zeus_recurring(RecurringJobs& jobs, const net::HttpRequest& request,
                           const net::Reply& reply);

/// Returns {"message": ...}.
net::HttpResponse zeus_recurring_error(int status, const std::string& message);

}  // namespace harpe::training
