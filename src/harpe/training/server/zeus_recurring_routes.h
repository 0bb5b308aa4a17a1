#pragma once
/// \file
/// Zeus's batch size protocol over the recurring jobs of this server: /jobs, /jobs/batch_size,
/// /report, /trials. Zeus's own client (release 0.16) works with it unchanged.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe {

bool is_zeus_recurring_path(std::string_view path);

/// The job that a request is about, by its query or its body; none: it names none, or cannot be
/// read.
std::optional<std::string> job_of_zeus_recurring(const HttpRequest& request);

/// Gives a job that is to be registered without an id one that begins with its prefix.
void name_zeus_recurring_job(HttpRequest& request);

/// False when the path is none of these.
bool handle_zeus_recurring(RecurringJobs& jobs, const HttpRequest& request, const Reply& reply);

/// {"message": ...}
HttpResponse zeus_recurring_error(int status, const std::string& message);

}  // namespace harpe
