#include "harpe/training/store/sqlite_changes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harpe/training/store/checks.h"

namespace harpe {
namespace {

/// A summary that was never written has no end.
constexpr double kNotEnded = -1;

/// Runs a statement with its parameters; how many rows it changed.
template <class... Values>
Result<std::int64_t> run(SqliteDatabase& database, const char* statement, const Values&... values) {
  auto prepared = HARPE_TRY(database.prepare(statement));
  (prepared.bind(values), ...);
  return prepared.run();
}

Result<std::int64_t> write_state(SqliteDatabase& database, const JobSave& save) {
  const StoredJob& job = save.job;
  if (save.is_there) {
    return run(database,
               "UPDATE job SET state = ?2, revision = ?3, updated = ?4 WHERE id = ?1 AND "
               "(revision < ?3 OR (revision = ?3 AND state = ?2))",
               job.id, job.state, job.revision, job.updated);
  }
  return run(database,
             "INSERT INTO job (id, state, revision, updated) VALUES (?1, ?2, ?3, ?4) "
             "ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision, "
             "updated = excluded.updated WHERE job.revision < excluded.revision OR "
             "(job.revision = excluded.revision AND job.state = excluded.state)",
             job.id, job.state, job.revision, job.updated);
}

/// One row for every job, also where no summary is given.
Status write_summary_row(SqliteDatabase& database, const JobSave& save) {
  const StoredJob& job = save.job;
  if (!save.summary) {
    const auto there = run(database,
                           "INSERT INTO summary (job, text, heard, ended) "
                           "VALUES (?1, '', ?2, ?3) ON CONFLICT (job) DO NOTHING",
                           job.id, job.updated, kNotEnded);
    return there.ok() ? ok_status() : Status(there.error());
  }
  const auto written =
      run(database,
          "INSERT INTO summary (job, text, heard, ended) VALUES (?1, ?2, ?3, ?4) "
          "ON CONFLICT (job) DO UPDATE SET text = excluded.text, heard = excluded.heard, "
          "ended = excluded.ended",
          job.id, save.summary->text, save.summary->heard, save.summary->ended.value_or(kNotEnded));
  return written.ok() ? ok_status() : Status(written.error());
}

/// Whether the job was written.
Result<bool> write_job(SqliteDatabase& database, const JobSave& save) {
  const std::int64_t changed = HARPE_TRY(write_state(database, save));
  if (changed == 0) return false;
  if (changed > 1) return damaged_job(save.job.id);
  HARPE_TRY(write_summary_row(database, save));
  if (save.plans) {
    HARPE_TRY(run(database,
                  "INSERT INTO plans (job, text) VALUES (?1, ?2) "
                  "ON CONFLICT (job) DO UPDATE SET text = excluded.text",
                  save.job.id, *save.plans));
  }
  for (const auto& [name, text] : save.parts) {
    HARPE_TRY(run(database,
                  "INSERT INTO part (job, name, text) VALUES (?1, ?2, ?3) "
                  "ON CONFLICT (job, name) DO UPDATE SET text = excluded.text",
                  save.job.id, name, text));
  }
  return true;
}

Status write_event(SqliteDatabase& database, const StoredEvent& event) {
  const auto written =
      run(database,
          "INSERT INTO event (job, at, kind, text, stored_at) SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT "
          "EXISTS (SELECT 1 FROM event WHERE job = ?1 AND at = ?2 AND kind = ?3 AND text = ?4)",
          event.job, event.at, event.kind, event.text, event.stored_at.value_or(event.at));
  return written.ok() ? ok_status() : Status(written.error());
}

Status write_clock(SqliteDatabase& database, const ClockMark& mark) {
  const auto written =
      run(database,
          "INSERT INTO clock (one, seconds, boot, boot_time, wall) VALUES (1, ?1, ?2, ?3, ?4) "
          "ON CONFLICT (one) DO UPDATE SET seconds = excluded.seconds, boot = excluded.boot, "
          "boot_time = excluded.boot_time, wall = excluded.wall "
          "WHERE clock.seconds < excluded.seconds",
          mark.seconds, mark.boot, mark.boot_time, mark.wall);
  return written.ok() ? ok_status() : Status(written.error());
}

}  // namespace

Result<std::vector<std::string>> write_changes(SqliteDatabase& database,
                                               const StoreChanges& changes) {
  std::set<std::string> refused;
  for (const JobSave& save : changes.jobs) {
    if (refused.contains(save.job.id)) continue;
    const bool written = HARPE_TRY(write_job(database, save));
    if (!written) refused.insert(save.job.id);
  }
  for (const JobSummary& summary : changes.summaries) {
    if (refused.contains(summary.job)) continue;
    const auto written = HARPE_TRY(
        run(database, "UPDATE summary SET text = ?2, heard = ?3, ended = ?4 WHERE job = ?1",
            summary.job, summary.text, summary.heard, summary.ended.value_or(kNotEnded)));
    if (written == 0) refused.insert(summary.job);
  }
  for (const StoredEvent& event : changes.events) {
    if (refused.contains(event.job)) continue;
    HARPE_TRY(write_event(database, event));
  }
  if (changes.clock) {
    HARPE_TRY(write_clock(database, *changes.clock));
  }
  return std::vector<std::string>(refused.begin(), refused.end());
}

Status remove_job(SqliteDatabase& database, const std::string& id) {
  for (const char* statement :
       {"DELETE FROM job WHERE id = ?1", "DELETE FROM plans WHERE job = ?1",
        "DELETE FROM part WHERE job = ?1", "DELETE FROM summary WHERE job = ?1",
        "DELETE FROM event WHERE job = ?1"}) {
    HARPE_TRY(run(database, statement, id));
  }
  return ok_status();
}

Result<std::int64_t> prune_events(SqliteDatabase& database, const Retention& keep) {
  Result<std::int64_t> total = run(database,
                                   "DELETE FROM event WHERE sequence IN (SELECT sequence FROM "
                                   "event WHERE stored_at < ?1 ORDER BY stored_at LIMIT ?2)",
                                   keep.since, keep.most_at_once);
  if (!total.ok()) return total;
  const std::int64_t most = std::max<std::int64_t>(keep.most_per_job, 0);
  std::vector<std::string> jobs = keep.jobs.value_or(std::vector<std::string>());
  if (!keep.jobs) {
    auto full =
        HARPE_TRY(database.prepare("SELECT job FROM event GROUP BY job HAVING count(*) > ?1"));
    full.bind(most);
    for (;;) {
      const bool row = HARPE_TRY(full.step());
      if (!row) break;
      jobs.push_back(full.text(0));
    }
  }
  for (const std::string& job : jobs) {
    const auto gone =
        HARPE_TRY(run(database,
                      "DELETE FROM event WHERE job = ?1 AND sequence <= (SELECT sequence FROM "
                      "event WHERE job = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)",
                      job, most));
    *total += gone;
  }
  return total;
}

Result<std::vector<StoredJob>> read_jobs(SqliteDatabase& database, const std::string* id) {
  auto select = HARPE_TRY(database.prepare(
      id == nullptr ? "SELECT id, state, revision, updated FROM job ORDER BY id"
                    : "SELECT id, state, revision, updated FROM job WHERE id = ?1"));
  if (id != nullptr) select.bind(*id);
  std::vector<StoredJob> found;
  for (;;) {
    const bool row = HARPE_TRY(select.step());
    if (!row) return found;
    found.push_back({select.text(0), select.text(1), select.integer(2), select.number(3)});
  }
}

Result<std::vector<JobSummary>> read_summaries(SqliteDatabase& database, const std::string* id) {
  auto select = HARPE_TRY(database.prepare(
      id == nullptr ? "SELECT job, text, heard, ended FROM summary ORDER BY job"
                    : "SELECT job, text, heard, ended FROM summary WHERE job = ?1"));
  if (id != nullptr) select.bind(*id);
  std::vector<JobSummary> found;
  for (;;) {
    const bool row = HARPE_TRY(select.step());
    if (!row) return found;
    JobSummary& one =
        found.emplace_back(JobSummary{select.text(0), select.text(1), select.number(2), {}});
    if (const double ended = select.number(3); ended >= 0) one.ended = ended;
  }
}

Result<std::map<std::string, std::string>> read_parts(SqliteDatabase& database,
                                                      const std::string& id) {
  auto select = HARPE_TRY(database.prepare("SELECT name, text FROM part WHERE job = ?1"));
  select.bind(id);
  std::map<std::string, std::string> parts;
  for (;;) {
    const bool row = HARPE_TRY(select.step());
    if (!row) return parts;
    parts[select.text(0)] = select.text(1);
  }
}

Result<std::optional<ClockMark>> read_clock(SqliteDatabase& database) {
  auto select = HARPE_TRY(database.prepare("SELECT seconds, boot, boot_time, wall FROM clock"));
  const bool row = HARPE_TRY(select.step());
  if (!row) return std::optional<ClockMark>();
  return std::optional(
      ClockMark{select.number(0), select.text(1), select.number(2), select.number(3)});
}

}  // namespace harpe
