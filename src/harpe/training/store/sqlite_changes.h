#pragma once
/// \file
/// The rows of a SQLite store, written and read. All within the caller's transaction, or alone.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/store/sqlite_database.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// Writes all but the notifications; the ids of the jobs that were left as they were. See
/// `Store::write`.
Result<std::vector<std::string>> write_changes(SqliteDatabase& database,
                                               const StoreChanges& changes);

/// Deletes the job and all that belongs to it.
Status remove_job(SqliteDatabase& database, const std::string& id);

/// See `Store::prune`.
Result<std::int64_t> prune_events(SqliteDatabase& database, const Retention& keep);

/// Of one job, or of all.
Result<std::vector<StoredJob>> read_jobs(SqliteDatabase& database, const std::string* id);
Result<std::vector<JobSummary>> read_summaries(SqliteDatabase& database, const std::string* id);
Result<std::map<std::string, std::string>> read_parts(SqliteDatabase& database,
                                                      const std::string& id);
Result<std::optional<ClockMark>> read_clock(SqliteDatabase& database);

}  // namespace harpe
