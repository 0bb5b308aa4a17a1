#pragma once
/// \file
/// Summary of a job for lists, and for jobs that are not in memory.

#include <optional>
#include <string>

#include "harpe/training/server/hosted_job.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Returns members of a JSON object, without braces.
std::string summary_text(const HostedJob& job);

/// Returns `"activity": ..., "heard_at": ..., "ended_at": ...`, without braces.
std::string activity_text(Activity activity, Seconds heard, std::optional<Seconds> ended,
                          const ServiceClock& time);

/// Returns the progress of its plans; "null" if none are being made.
std::string characterization_text(const HostedJob& job);

/// Returns the progress of the search for a better plan; "null" if there was none.
std::string search_text(const HostedJob& job);

/// Returns the job's object in a list. \param summary  its text may be empty: from an older Harpe
/// \param job  null if it is not in memory
std::string listed_text(const JobSummary& summary, Activity activity, const ServiceClock& time,
                        const HostedJob* job);

}  // namespace harpe::training
