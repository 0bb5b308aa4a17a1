#pragma once
/// \file
/// A job in a few words: what lists show, and what is known of a job that is not in memory.

#include <optional>
#include <string>

#include "harpe/training/server/hosted_job.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Members of a JSON object, without braces.
std::string summary_text(const HostedJob& job);

/// `"activity": ..., "heard_at": ..., "ended_at": ...`, without braces.
std::string activity_text(Activity activity, Seconds heard, std::optional<Seconds> ended,
                          const ServiceClock& time);

/// How far its plans are; "null" where none are made.
std::string characterization_text(const HostedJob& job);

/// How the search for a better plan than the one it runs by comes on; "null" where there was none.
std::string search_text(const HostedJob& job);

/// The object of a list. \param summary  whose text may be empty: written by an older Harpe
/// \param job  in memory; null: it is not
std::string listed_text(const JobSummary& summary, Activity activity, const ServiceClock& time,
                        const HostedJob* job);

}  // namespace harpe::training
