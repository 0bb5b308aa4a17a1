#pragma once
/// \file
/// The rows of a PostgreSQL store, written and read. All within the caller's transaction, or alone.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// Writes all but the notifications. \param refused  jobs to leave as they are; those that the
/// store left as they were are added. See `Store::write`.
Status write_changes(PostgresSession& session, const StoreChanges& changes,
                     std::set<std::string>& refused);

/// Deletes the job and all that belongs to it. Its owner is released: the row stays, so that one
/// who claims a job of that name has a higher epoch than all before.
Status remove_job(PostgresSession& session, const std::string& id);

/// See `Store::prune`. Events of jobs that another server than `server` owns stay. \param server
/// empty: they are those of every job that has an owner
Result<std::int64_t> prune_events(PostgresSession& session, const Retention& keep,
                                  const std::string& server);

/// Of one job, or of all.
Result<std::vector<StoredJob>> read_jobs(PostgresSession& session, const std::string* id);
Result<std::vector<JobSummary>> read_summaries(PostgresSession& session, const std::string* id);
Result<std::map<std::string, std::string>> read_parts(PostgresSession& session,
                                                      const std::string& id);
Result<std::optional<ClockMark>> read_clock(PostgresSession& session);

}  // namespace harpe
