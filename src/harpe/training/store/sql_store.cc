#include "harpe/training/store/sql_store.h"

#include <algorithm>
#include <utility>

#include "harpe/training/store/checks.h"

namespace harpe::training {
namespace {

constexpr Migration kMigrations[] = {
    // Events are also indexed by time, to recognise an event that is written again.
    {R"(
CREATE TABLE job (id TEXT PRIMARY KEY NOT NULL, state TEXT NOT NULL, revision INTEGER NOT NULL,
                  updated REAL NOT NULL);
CREATE TABLE plans (job TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL);
CREATE TABLE event (sequence INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, at REAL NOT NULL,
                    kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX event_by_job ON event (job, sequence);
CREATE INDEX event_by_time ON event (job, at);
)",
     R"(
CREATE TABLE harpe_job (id text COLLATE "C" PRIMARY KEY, state text NOT NULL, revision bigint NOT NULL,
                        updated double precision NOT NULL);
CREATE TABLE harpe_plans (job text COLLATE "C" PRIMARY KEY, text text NOT NULL);
CREATE TABLE harpe_event (sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                          job text COLLATE "C" NOT NULL, at double precision NOT NULL,
                          kind text NOT NULL, text text NOT NULL);
CREATE INDEX harpe_event_by_job ON harpe_event (job, sequence);
CREATE INDEX harpe_event_by_time ON harpe_event (job, at);
CREATE TABLE harpe_owner (job text COLLATE "C" PRIMARY KEY,
                          number integer GENERATED ALWAYS AS IDENTITY UNIQUE,
                          server text NOT NULL DEFAULT '', url text NOT NULL DEFAULT '',
                          backend integer NOT NULL DEFAULT 0);
)"},
    // Ownership is based on leases of servers. SQLite has one server, whose claims have an epoch.
    {R"(
CREATE TABLE server (epoch INTEGER NOT NULL);
INSERT INTO server VALUES (0);
)",
     R"(
CREATE TABLE harpe_server (server text COLLATE "C" PRIMARY KEY, url text NOT NULL, beat bigint NOT NULL,
                           boot text NOT NULL, namespaces text NOT NULL, pid bigint NOT NULL,
                           started bigint NOT NULL);
ALTER TABLE harpe_owner DROP COLUMN number, DROP COLUMN url, DROP COLUMN backend,
                        ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
)"},
    // Summaries and parts have their own tables: a row with a long text spans many pages, all of
    // which are read for a column after the text.
    {R"(
CREATE TABLE part (job TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL);
CREATE UNIQUE INDEX part_by_name ON part (job, name);
CREATE TABLE summary (job TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL, heard REAL NOT NULL,
                      ended REAL NOT NULL) WITHOUT ROWID;
INSERT INTO summary SELECT id, '', updated, -1 FROM job;
ALTER TABLE event ADD COLUMN stored_at REAL NOT NULL DEFAULT 0;
UPDATE event SET stored_at = at;
CREATE INDEX event_by_age ON event (stored_at);
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), seconds REAL NOT NULL,
                    boot TEXT NOT NULL, boot_time REAL NOT NULL, wall REAL NOT NULL);
)",
     R"(
CREATE TABLE harpe_part (job text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
                         text text NOT NULL, PRIMARY KEY (job, name));
CREATE TABLE harpe_summary (job text COLLATE "C" PRIMARY KEY, text text NOT NULL,
                            heard double precision NOT NULL, ended double precision NOT NULL);
INSERT INTO harpe_summary SELECT id, '', updated, -1 FROM harpe_job;
ALTER TABLE harpe_event ADD COLUMN stored_at double precision NOT NULL DEFAULT 0;
UPDATE harpe_event SET stored_at = at;
CREATE INDEX harpe_event_by_age ON harpe_event (stored_at);
CREATE TABLE harpe_clock (one integer PRIMARY KEY CHECK (one = 1),
                          seconds double precision NOT NULL, boot text NOT NULL,
                          boot_time double precision NOT NULL, wall double precision NOT NULL);
)"},
};

/// End time of a job that has not ended, or whose summary was never written.
constexpr double kNotEnded = -1;

Result<std::int64_t> write_state(SqlDatabase& database, const JobSave& save) {
  const StoredJob& job = save.job;
  if (save.is_there) {
    return database.execute(
        "UPDATE harpe_job SET state = $2, revision = $3::bigint, updated = $4::float8 "
        "WHERE id = $1 AND "
        "(revision < $3::bigint OR (revision = $3::bigint AND state = $2))",
        {job.id, job.state, job.revision, job.updated});
  }
  return database.execute(
      "INSERT INTO harpe_job AS j (id, state, revision, updated) "
      "VALUES ($1, $2, $3::bigint, $4::float8) "
      "ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision, "
      "updated = excluded.updated WHERE j.revision < excluded.revision OR "
      "(j.revision = excluded.revision AND j.state = excluded.state)",
      {job.id, job.state, job.revision, job.updated});
}

/// Writes the summary row of a job, which exists even if no summary is given.
Status write_summary_row(SqlDatabase& database, const JobSave& save) {
  const StoredJob& job = save.job;
  if (!save.summary) {
    HARPE_TRY(
        database.execute("INSERT INTO harpe_summary (job, text, heard, ended) VALUES "
                         "($1, '', $2::float8, $3::float8) ON CONFLICT (job) DO NOTHING",
                         {job.id, job.updated, kNotEnded}));
    return ok_status();
  }
  HARPE_TRY(database.execute(
      "INSERT INTO harpe_summary (job, text, heard, ended) VALUES ($1, $2, $3::float8, $4::float8) "
      "ON CONFLICT (job) DO UPDATE SET text = excluded.text, heard = excluded.heard, "
      "ended = excluded.ended",
      {job.id, save.summary->text, save.summary->heard, save.summary->ended.value_or(kNotEnded)}));
  return ok_status();
}

/// Returns true if the job was written.
Result<bool> write_job(SqlDatabase& database, const JobSave& save) {
  const std::int64_t changed = HARPE_TRY(write_state(database, save));
  if (changed == 0) return false;
  if (changed > 1) return damaged_job(save.job.id);
  HARPE_TRY(write_summary_row(database, save));
  if (save.plans) {
    HARPE_TRY(
        database.execute("INSERT INTO harpe_plans (job, text) VALUES ($1, $2) "
                         "ON CONFLICT (job) DO UPDATE SET text = excluded.text",
                         {save.job.id, *save.plans}));
  }
  for (const auto& [name, text] : save.parts) {
    HARPE_TRY(
        database.execute("INSERT INTO harpe_part (job, name, text) VALUES ($1, $2, $3) "
                         "ON CONFLICT (job, name) DO UPDATE SET text = excluded.text",
                         {save.job.id, name, text}));
  }
  return true;
}

Status write_event(SqlDatabase& database, const StoredEvent& event) {
  HARPE_TRY(database.execute(
      "INSERT INTO harpe_event (job, at, kind, text, stored_at) "
      "SELECT $1, $2::float8, $3, $4, $5::float8 WHERE NOT EXISTS (SELECT 1 FROM harpe_event "
      "WHERE job = $1 AND at = $2::float8 AND kind = $3 AND text = $4)",
      {event.job, event.at, event.kind, event.text, event.stored_at.value_or(event.at)}));
  return ok_status();
}

Status write_clock(SqlDatabase& database, const ClockMark& mark) {
  HARPE_TRY(database.execute(
      "INSERT INTO harpe_clock AS c (one, seconds, boot, boot_time, wall) VALUES "
      "(1, $1::float8, $2, $3::float8, $4::float8) "
      "ON CONFLICT (one) DO UPDATE SET seconds = excluded.seconds, boot = excluded.boot, "
      "boot_time = excluded.boot_time, wall = excluded.wall WHERE c.seconds < excluded.seconds",
      {mark.seconds, mark.boot, mark.boot_time, mark.wall}));
  return ok_status();
}

StoredJob job_of(const SqlRow& row) {
  return {row.text(0), row.text(1), row.integer(2), row.number(3)};
}

JobSummary summary_of(const SqlRow& row) {
  JobSummary summary{row.text(0), row.text(1), row.number(2), {}};
  if (const double ended = row.number(3); ended >= 0) summary.ended = ended;
  return summary;
}

template <class One>
Result<std::optional<One>> first(Result<std::vector<One>> found) {
  if (!found.ok()) return std::move(found).error();
  if (found->empty()) return std::optional<One>();
  return std::optional(std::move(found->front()));
}

}  // namespace

std::span<const Migration> migrations() {
  return kMigrations;
}

Error newer_schema(const std::string& database, int version, std::size_t known) {
  return Error::io(database, "was made by a newer Harpe: its tables have version " +
                                 std::to_string(version) +
                                 ", this program supports versions up to " + std::to_string(known) +
                                 "; run the newer program, or restore a backup made before it");
}

Status write_changes(SqlDatabase& database, const StoreChanges& changes,
                     std::set<std::string>& refused) {
  for (const JobSave& save : changes.jobs) {
    if (refused.contains(save.job.id)) continue;
    const bool written = HARPE_TRY(write_job(database, save));
    if (!written) refused.insert(save.job.id);
  }
  for (const JobSummary& summary : changes.summaries) {
    if (refused.contains(summary.job)) continue;
    const std::int64_t written = HARPE_TRY(database.execute(
        "UPDATE harpe_summary SET text = $2, heard = $3::float8, ended = $4::float8 WHERE job = $1",
        {summary.job, summary.text, summary.heard, summary.ended.value_or(kNotEnded)}));
    if (written == 0) refused.insert(summary.job);
  }
  for (const StoredEvent& event : changes.events) {
    if (refused.contains(event.job)) continue;
    HARPE_TRY(write_event(database, event));
  }
  if (changes.clock) return write_clock(database, *changes.clock);
  return ok_status();
}

Status remove_job(SqlDatabase& database, const std::string& id) {
  for (const char* statement :
       {"DELETE FROM harpe_job WHERE id = $1", "DELETE FROM harpe_plans WHERE job = $1",
        "DELETE FROM harpe_part WHERE job = $1", "DELETE FROM harpe_summary WHERE job = $1",
        "DELETE FROM harpe_event WHERE job = $1"}) {
    HARPE_TRY(database.execute(statement, {id}));
  }
  return ok_status();
}

Result<std::int64_t> prune_events(SqlDatabase& database, const Retention& keep,
                                  const std::string* server) {
  const auto unless_owned = [server](const std::string& job) {
    if (server == nullptr) return std::string();
    return " AND NOT EXISTS (SELECT 1 FROM harpe_owner o WHERE o.job = " + job +
           " AND o.server NOT IN ('', $3))";
  };
  const std::string owner = server != nullptr ? *server : std::string();
  const auto erase = [&](const std::string& statement, const SqlValue& one, std::int64_t two) {
    return server != nullptr ? database.execute(statement.c_str(), {one, two, owner})
                             : database.execute(statement.c_str(), {one, two});
  };
  std::int64_t total = HARPE_TRY(
      erase("DELETE FROM harpe_event WHERE sequence IN (SELECT e.sequence FROM harpe_event e "
            "WHERE e.stored_at < $1::float8" +
                unless_owned("e.job") + " ORDER BY e.stored_at LIMIT $2::bigint)",
            keep.since, keep.most_at_once));
  const std::int64_t most = std::max<std::int64_t>(keep.most_per_job, 0);
  std::vector<std::string> jobs = keep.jobs.value_or(std::vector<std::string>());
  if (!keep.jobs) {
    HARPE_TRY(
        database.execute("SELECT job FROM harpe_event GROUP BY job HAVING count(*) > $1::bigint",
                         {most}, [&](const SqlRow& row) { jobs.push_back(row.text(0)); }));
  }
  for (const std::string& job : jobs) {
    total += HARPE_TRY(
        erase("DELETE FROM harpe_event WHERE job = $1 AND sequence <= (SELECT sequence FROM "
              "harpe_event WHERE job = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2::bigint)" +
                  unless_owned("$1"),
              job, most));
  }
  return total;
}

Result<std::vector<StoredJob>> SqlStore::jobs() {
  return rows<StoredJob>("SELECT id, state, revision, updated FROM harpe_job ORDER BY id", {},
                         job_of);
}

Result<std::optional<StoredJob>> SqlStore::job(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  return first(rows<StoredJob>("SELECT id, state, revision, updated FROM harpe_job WHERE id = $1",
                               {id}, job_of));
}

Result<std::optional<std::string>> SqlStore::plans(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  return first(rows<std::string>("SELECT text FROM harpe_plans WHERE job = $1", {id},
                                 [](const SqlRow& row) { return row.text(0); }));
}

Result<std::map<std::string, std::string>> SqlStore::parts(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  using Part = std::pair<std::string, std::string>;
  const auto found =
      HARPE_TRY(rows<Part>("SELECT name, text FROM harpe_part WHERE job = $1", {id},
                           [](const SqlRow& row) { return Part{row.text(0), row.text(1)}; }));
  return std::map<std::string, std::string>(found.begin(), found.end());
}

Result<std::vector<JobSummary>> SqlStore::summaries() {
  return rows<JobSummary>("SELECT job, text, heard, ended FROM harpe_summary ORDER BY job", {},
                          summary_of);
}

Result<std::optional<JobSummary>> SqlStore::summary(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  return first(rows<JobSummary>("SELECT job, text, heard, ended FROM harpe_summary WHERE job = $1",
                                {id}, summary_of));
}

Result<std::optional<ClockMark>> SqlStore::clock() {
  return first(rows<ClockMark>(
      "SELECT seconds, boot, boot_time, wall FROM harpe_clock", {}, [](const SqlRow& row) {
        return ClockMark{row.number(0), row.text(1), row.number(2), row.number(3)};
      }));
}

Result<std::vector<StoredEvent>> SqlStore::events(const std::string& job, std::int64_t after,
                                                  int limit) {
  HARPE_TRY(check_subject(job));
  return rows<StoredEvent>(
      "SELECT sequence, at, kind, text FROM harpe_event WHERE job = $1 AND sequence > $2::bigint "
      "ORDER BY sequence LIMIT $3::bigint",
      {job, after, std::int64_t{std::max(limit, 0)}}, [&](const SqlRow& row) {
        return StoredEvent{row.integer(0), row.number(1), job, row.text(2), row.text(3)};
      });
}

}  // namespace harpe::training
