#pragma once
/// \file
/// Harpe's own routes of recurring jobs, /v1/recurring-jobs and below: registering, trials, their
/// reports, what is known of a job.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe::training {

inline constexpr std::string_view kRecurringPath = "/v1/recurring-jobs";

/// The job that a path names, without escapes; none for other paths.
std::optional<std::string> recurring_job_of_path(std::string_view path);

/// The methods of a path's route: "GET, PUT"; empty: there is no such route here.
std::string methods_of_recurring_jobs(std::string_view path);

/// Whether a request is about what its job is now, which has to be in memory then. The path is one
/// of these.
bool needs_recurring_job_in_memory(const net::HttpRequest& request);

/// False when the path is none of these. The method is one of the path's.
bool handle_recurring_jobs(RecurringJobs& jobs, net::HttpRequest& request, const net::Reply& reply);

/// A recurrence begins, and is stored, or it is given up again. `done` on the loop's thread.
void begin_trial(RecurringJobs& jobs, const RecurringJobPtr& job,
                 std::function<void(const Result<zeus::BatchSizeOptimizer::Given>&)> done);
/// Takes a report, and stores it.
void take_trial_report(RecurringJobs& jobs, const RecurringJobPtr& job,
                       const zeus::TrialReport& report,
                       std::function<void(const Result<zeus::TrialVerdict>&)> done);
/// Gives a trial up, and stores that.
void give_trial_up(RecurringJobs& jobs, const RecurringJobPtr& job, int trial, int batch_size,
                   std::function<void(const Status&)> done);

}  // namespace harpe::training
