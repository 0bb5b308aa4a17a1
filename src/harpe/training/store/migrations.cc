#include "harpe/training/store/migrations.h"

namespace harpe::training {
namespace {

constexpr Migration kMigrations[] = {
    // Events are looked up by time too: one that is written again is known by it.
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
    // Ownership stands on leases of servers. SQLite has one server; its claims have an epoch, too.
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
    // Summaries and parts stand in tables of their own: a row with a long text is read over many
    // pages, also for what stands behind it.
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

}  // namespace

std::span<const Migration> migrations() {
  return kMigrations;
}

Error newer_schema(const std::string& database, int version, std::size_t known) {
  return Error::io(database, "was made by a newer Harpe: its tables have version " +
                                 std::to_string(version) + ", this program knows versions up to " +
                                 std::to_string(known) +
                                 "; run the newer program, or restore a backup made before it");
}

}  // namespace harpe::training
