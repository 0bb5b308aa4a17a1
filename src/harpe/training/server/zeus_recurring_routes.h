#pragma once
/// \file
/// Zeus's batch size protocol over the recurring jobs of this server: /jobs, /jobs/batch_size,
/// /report, /trials. Zeus's own client (release 0.16) works with it unchanged.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe::training {

bool is_zeus_recurring_path(std::string_view path);

/// The job that a request is about, by its query or its body; none: it names none, or cannot be
/// read.
std::optional<std::string> job_of_zeus_recurring(const net::HttpRequest& request);

/// Gives a job that is to be registered without an id one that begins with its prefix.
void name_zeus_recurring_job(net::HttpRequest& request);

/// False when the path is none of these.
bool handle_zeus_recurring(RecurringJobs& jobs, const net::HttpRequest& request,
                           const net::Reply& reply);

/// {"message": ...}
net::HttpResponse zeus_recurring_error(int status, const std::string& message);

}  // namespace harpe::training
