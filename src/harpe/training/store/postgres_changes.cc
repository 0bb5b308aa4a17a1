#include "harpe/training/store/postgres_changes.h"

#include <algorithm>
#include <utility>

#include "harpe/training/store/checks.h"

namespace harpe {
namespace {

/// A summary that was never written has no end.
constexpr double kNoEnd = -1;

Result<std::int64_t> run(PostgresSession& session, const char* statement,
                         std::initializer_list<PostgresValue> values) {
  const auto done = HARPE_TRY(session.query(statement, values));
  return done.changed();
}

Result<std::int64_t> write_state(PostgresSession& session, const JobSave& save) {
  const StoredJob& job = save.job;
  if (save.is_there) {
    return run(session,
               "UPDATE harpe_job SET state = $2, revision = $3::bigint, "
               "updated = $4::double precision WHERE id = $1 AND "
               "(revision < $3::bigint OR (revision = $3::bigint AND state = $2))",
               {job.id, job.state, job.revision, job.updated});
  }
  return run(session,
             "INSERT INTO harpe_job AS j (id, state, revision, updated) "
             "VALUES ($1, $2, $3::bigint, $4::double precision) "
             "ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision, "
             "updated = excluded.updated WHERE j.revision < excluded.revision OR "
             "(j.revision = excluded.revision AND j.state = excluded.state)",
             {job.id, job.state, job.revision, job.updated});
}

/// One row for every job, also where no summary is given.
Status write_summary_row(PostgresSession& session, const JobSave& save) {
  const StoredJob& job = save.job;
  if (!save.summary) {
    const auto there =
        run(session,
            "INSERT INTO harpe_summary (job, text, heard, ended) VALUES "
            "($1, '', $2::double precision, $3::double precision) ON CONFLICT (job) DO NOTHING",
            {job.id, job.updated, kNoEnd});
    return there.ok() ? ok_status() : Status(there.error());
  }
  const auto written =
      run(session,
          "INSERT INTO harpe_summary (job, text, heard, ended) VALUES "
          "($1, $2, $3::double precision, $4::double precision) "
          "ON CONFLICT (job) DO UPDATE SET text = excluded.text, heard = excluded.heard, "
          "ended = excluded.ended",
          {job.id, save.summary->text, save.summary->heard, save.summary->ended.value_or(kNoEnd)});
  return written.ok() ? ok_status() : Status(written.error());
}

/// Whether the job was written.
Result<bool> write_job(PostgresSession& session, const JobSave& save) {
  const std::int64_t changed = HARPE_TRY(write_state(session, save));
  if (changed == 0) return false;
  if (changed > 1) return damaged_job(save.job.id);
  HARPE_TRY(write_summary_row(session, save));
  if (save.plans) {
    HARPE_TRY(run(session,
                  "INSERT INTO harpe_plans (job, text) VALUES ($1, $2) "
                  "ON CONFLICT (job) DO UPDATE SET text = excluded.text",
                  {save.job.id, *save.plans}));
  }
  for (const auto& [name, text] : save.parts) {
    HARPE_TRY(run(session,
                  "INSERT INTO harpe_part (job, name, text) VALUES ($1, $2, $3) "
                  "ON CONFLICT (job, name) DO UPDATE SET text = excluded.text",
                  {save.job.id, name, text}));
  }
  return true;
}

Status write_event(PostgresSession& session, const StoredEvent& event) {
  const auto written =
      run(session,
          "INSERT INTO harpe_event (job, at, kind, text, stored_at) "
          "SELECT $1, $2::double precision, $3, $4, $5::double precision WHERE NOT EXISTS "
          "(SELECT 1 FROM harpe_event WHERE job = $1 AND at = $2::double precision AND kind = $3 "
          "AND text = $4)",
          {event.job, event.at, event.kind, event.text, event.stored_at.value_or(event.at)});
  return written.ok() ? ok_status() : Status(written.error());
}

Status write_clock(PostgresSession& session, const ClockMark& mark) {
  const auto written =
      run(session,
          "INSERT INTO harpe_clock AS c (one, seconds, boot, boot_time, wall) VALUES "
          "(1, $1::double precision, $2, $3::double precision, $4::double precision) "
          "ON CONFLICT (one) DO UPDATE SET seconds = excluded.seconds, boot = excluded.boot, "
          "boot_time = excluded.boot_time, wall = excluded.wall "
          "WHERE c.seconds < excluded.seconds",
          {mark.seconds, mark.boot, mark.boot_time, mark.wall});
  return written.ok() ? ok_status() : Status(written.error());
}

}  // namespace

Status write_changes(PostgresSession& session, const StoreChanges& changes,
                     std::set<std::string>& refused) {
  for (const JobSave& save : changes.jobs) {
    if (refused.contains(save.job.id)) continue;
    const bool written = HARPE_TRY(write_job(session, save));
    if (!written) refused.insert(save.job.id);
  }
  for (const JobSummary& summary : changes.summaries) {
    if (refused.contains(summary.job)) continue;
    const auto written =
        HARPE_TRY(run(session,
                      "UPDATE harpe_summary SET text = $2, heard = $3::double precision, "
                      "ended = $4::double precision WHERE job = $1",
                      {summary.job, summary.text, summary.heard, summary.ended.value_or(kNoEnd)}));
    if (written == 0) refused.insert(summary.job);
  }
  for (const StoredEvent& event : changes.events) {
    if (refused.contains(event.job)) continue;
    HARPE_TRY(write_event(session, event));
  }
  if (changes.clock) return write_clock(session, *changes.clock);
  return ok_status();
}

Status remove_job(PostgresSession& session, const std::string& id) {
  for (const char* statement :
       {"DELETE FROM harpe_job WHERE id = $1", "DELETE FROM harpe_plans WHERE job = $1",
        "DELETE FROM harpe_part WHERE job = $1", "DELETE FROM harpe_summary WHERE job = $1",
        "DELETE FROM harpe_event WHERE job = $1",
        "UPDATE harpe_owner SET server = '' WHERE job = $1"}) {
    HARPE_TRY(run(session, statement, {id}));
  }
  return ok_status();
}

Result<std::int64_t> prune_events(PostgresSession& session, const Retention& keep,
                                  const std::string& server) {
  Result<std::int64_t> total =
      run(session,
          "DELETE FROM harpe_event WHERE sequence IN (SELECT e.sequence FROM harpe_event e "
          "WHERE e.stored_at < $1::double precision AND NOT EXISTS (SELECT 1 FROM harpe_owner o "
          "WHERE o.job = e.job AND o.server NOT IN ('', $3)) "
          "ORDER BY e.stored_at LIMIT $2::bigint)",
          {keep.since, keep.most_at_once, server});
  if (!total.ok()) return total;
  const std::int64_t most = std::max<std::int64_t>(keep.most_per_job, 0);
  std::vector<std::string> jobs = keep.jobs.value_or(std::vector<std::string>());
  if (!keep.jobs) {
    const auto full = HARPE_TRY(session.query(
        "SELECT job FROM harpe_event GROUP BY job HAVING count(*) > $1::bigint", {most}));
    for (int i = 0; i < full.size(); ++i) jobs.push_back(full.text(i, 0));
  }
  for (const std::string& job : jobs) {
    const auto gone =
        run(session,
            "DELETE FROM harpe_event WHERE job = $1 AND sequence <= (SELECT sequence FROM "
            "harpe_event WHERE job = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2::bigint) "
            "AND NOT EXISTS (SELECT 1 FROM harpe_owner WHERE job = $1 AND server NOT IN ('', $3))",
            {job, most, server});
    if (!gone.ok()) return gone;
    *total += *gone;
  }
  return total;
}

Result<std::vector<StoredJob>> read_jobs(PostgresSession& session, const std::string* id) {
  const auto rows = HARPE_TRY(
      id == nullptr
          ? session.query("SELECT id, state, revision, updated FROM harpe_job ORDER BY id")
          : session.query("SELECT id, state, revision, updated FROM harpe_job WHERE id = $1",
                          {*id}));
  std::vector<StoredJob> found;
  for (int i = 0; i < rows.size(); ++i) {
    found.push_back({rows.text(i, 0), rows.text(i, 1), rows.integer(i, 2), rows.number(i, 3)});
  }
  return found;
}

Result<std::vector<JobSummary>> read_summaries(PostgresSession& session, const std::string* id) {
  const auto rows = HARPE_TRY(
      id == nullptr
          ? session.query("SELECT job, text, heard, ended FROM harpe_summary ORDER BY job")
          : session.query("SELECT job, text, heard, ended FROM harpe_summary WHERE job = $1",
                          {*id}));
  std::vector<JobSummary> found;
  for (int i = 0; i < rows.size(); ++i) {
    JobSummary& one =
        found.emplace_back(JobSummary{rows.text(i, 0), rows.text(i, 1), rows.number(i, 2), {}});
    if (const double ended = rows.number(i, 3); ended >= 0) one.ended = ended;
  }
  return found;
}

Result<std::map<std::string, std::string>> read_parts(PostgresSession& session,
                                                      const std::string& id) {
  const auto rows =
      HARPE_TRY(session.query("SELECT name, text FROM harpe_part WHERE job = $1", {id}));
  std::map<std::string, std::string> parts;
  for (int i = 0; i < rows.size(); ++i) parts[rows.text(i, 0)] = rows.text(i, 1);
  return parts;
}

Result<std::optional<ClockMark>> read_clock(PostgresSession& session) {
  const auto rows =
      HARPE_TRY(session.query("SELECT seconds, boot, boot_time, wall FROM harpe_clock"));
  if (rows.size() == 0) return std::optional<ClockMark>();
  return std::optional(
      ClockMark{rows.number(0, 0), rows.text(0, 1), rows.number(0, 2), rows.number(0, 3)});
}

}  // namespace harpe
