#include "harpe/training/store/postgres_migrations.h"

#include <string>

namespace harpe {
namespace {

/// "Harpe" as a number: the advisory lock of those who change the tables.
constexpr std::int64_t kMigrationLock = 0x4861727065;
/// A step may rewrite a large table.
constexpr Seconds kStepTimeout = 3600_s;

/// The version of the tables; 0 where there are none. Needs no right to create any.
Result<std::int64_t> version_of(PostgresSession& session) {
  const auto table = HARPE_TRY(session.query("SELECT to_regclass('harpe_schema') IS NOT NULL"));
  if (!table.truth(0, 0)) return std::int64_t{0};
  const auto version = HARPE_TRY(session.query("SELECT version FROM harpe_schema"));
  return version.size() == 1 ? version.integer(0, 0) : 0;
}

}  // namespace

Status migrate(PostgresSession& session, std::span<const Migration> steps) {
  PostgresTransaction transaction(session);
  HARPE_TRY(transaction.begin());
  HARPE_TRY(session.script("SET LOCAL statement_timeout = 0", kStepTimeout));
  HARPE_TRY(session.query("SELECT pg_advisory_xact_lock($1::bigint)", {kMigrationLock}));
  const std::int64_t version = HARPE_TRY(version_of(session));
  if (version < 0 || static_cast<std::size_t>(version) > steps.size()) {
    return newer_schema(session.url().text(), static_cast<int>(version), steps.size());
  }
  if (static_cast<std::size_t>(version) == steps.size()) return ok_status();
  if (version == 0) {
    const char* const table = "CREATE TABLE harpe_schema (version integer NOT NULL)";
    HARPE_TRY(session.script(table, kStepTimeout));
    HARPE_TRY(session.query("INSERT INTO harpe_schema VALUES (0)"));
  }
  for (const Migration& step : steps.subspan(static_cast<std::size_t>(version))) {
    HARPE_TRY(session.script(step.postgresql, kStepTimeout));
  }
  HARPE_TRY(session.query("UPDATE harpe_schema SET version = $1::integer",
                          {static_cast<std::int64_t>(steps.size())}));
  return transaction.commit();
}

}  // namespace harpe
