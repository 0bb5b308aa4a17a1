#pragma once
/// \file
/// Harpe's own routes of recurring jobs, below /v1/recurring-jobs: registration, trials, their
/// reports, and the status of jobs.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe::training {

inline constexpr std::string_view kRecurringPath = "/v1/recurring-jobs";

/// Returns the job in a path, unescaped; nullopt for other paths.
std::optional<std::string> recurring_job_of_path(std::string_view path);

/// Returns the methods of a path's route: "GET, PUT"; empty if there is no such route here.
std::string methods_of_recurring_jobs(std::string_view path);

/// Returns true if a request needs the current state of its job, which must then be in memory. The
/// path must be one of these routes.
bool needs_recurring_job_in_memory(const net::HttpRequest& request);

/// Handles a request whose method the path allows. Returns false if the path is not one of these
/// routes.
bool handle_recurring_jobs(RecurringJobs& jobs, net::HttpRequest& request, const net::Reply& reply);

/// Begins and stores a trial; gives it up if it cannot be stored. Calls `done` on the loop's
/// thread.
void begin_trial(RecurringJobs& jobs, const RecurringJobPtr& job,
                 std::function<void(const Result<zeus::BatchSizeOptimizer::Given>&)> done);
/// Applies and stores a report.
void take_trial_report(RecurringJobs& jobs, const RecurringJobPtr& job,
                       const zeus::TrialReport& report,
                       std::function<void(const Result<zeus::TrialVerdict>&)> done);
/// Gives up a trial, and stores the change.
void give_trial_up(RecurringJobs& jobs, const RecurringJobPtr& job, int trial, int batch_size,
                   std::function<void(const Status&)> done);

}  // namespace harpe::training
