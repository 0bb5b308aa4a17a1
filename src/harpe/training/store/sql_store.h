#pragma once
/// \file
/// The tables of a store, accessed with statements that SQLite and PostgreSQL both accept.
///
/// Parameters are `$1`, `$2::bigint`, `$3::float8`: PostgreSQL needs the type, and SQLite reads all
/// of `$2::bigint` as the parameter's name. Tables have their PostgreSQL names, such as
/// `harpe_job`. In a SQLite file, which no other program shares, they have no prefix (see
/// sqlite_database.h).

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/training/store/store.h"
#include "harpe/training/store/store_url.h"

namespace harpe::training {

/// A step that creates or changes tables. Both databases run the same ordered list of steps. A step
/// that was released never changes: a change is another step at the end.
struct Migration {
  const char* sqlite;      ///< statements, run in one transaction with the new version's number
  const char* postgresql;  ///< statements for the same change
};

/// Step i brings a database from version i to version i + 1; an empty database has version 0.
std::span<const Migration> migrations();

/// Returns the error for a database whose version is newer than this program supports.
Error newer_schema(const std::string& database, int version, std::size_t known);

// A store in a PostgreSQL database, for any number of servers.

/// Returns the parameters of libpq in a URL, by name, as libpq reads it. The URL has been checked
/// (`StoreUrl::parse`). Fails if this build of Harpe is without PostgreSQL.
Result<std::map<std::string, std::string>> postgres_parameters(const std::string& url);

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url, const StoreOptions& options,
                                                   std::span<const Migration> steps = migrations());

// A store in one SQLite file, for one server. Write-ahead log, `synchronous = FULL`: a commit is
// on the disk before it is acknowledged, which costs one flush; batches of changes share it.

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                 const StoreOptions& options,
                                                 std::span<const Migration> steps = migrations());

/// A parameter of a statement. Texts are stored by reference and must outlive the call.
class SqlValue {
 public:
  SqlValue(const std::string& text) : value_(&text) {}  // NOLINT(google-explicit-constructor)
  SqlValue(std::int64_t number) : value_(number) {}     // NOLINT(google-explicit-constructor)
  SqlValue(double number) : value_(number) {}           // NOLINT(google-explicit-constructor)

  /// Calls `use` with a `const std::string*`, a `std::int64_t` or a `double`.
  template <class Use>
  auto visit(const Use& use) const {
    return std::visit(use, value_);
  }

 private:
  std::variant<const std::string*, std::int64_t, double> value_;
};

/// A row returned by a statement; column numbers start at 0.
class SqlRow {
 public:
  virtual ~SqlRow() = default;
  virtual std::string text(int column) const = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual double number(int column) const = 0;
};

class SqlDatabase {
 public:
  using Visit = std::function<void(const SqlRow&)>;
  virtual ~SqlDatabase() = default;
  /// Runs one statement to its end and calls `visit` with each row. Returns the number of rows
  /// inserted, updated or deleted.
  virtual Result<std::int64_t> execute(const char* statement,
                                       std::initializer_list<SqlValue> values = {},
                                       const Visit& visit = {}) = 0;
};

/// Writes all changes except the notifications, within the caller's transaction. See
/// `Store::write`.
/// \param refused  jobs not to write; jobs that the store refuses are added
Status write_changes(SqlDatabase& database, const StoreChanges& changes,
                     std::set<std::string>& refused);

/// Deletes the job and all its data except its owner, within the caller's transaction.
Status remove_job(SqlDatabase& database, const std::string& id);

/// See `Store::prune`; within the caller's transaction.
/// \param server  this server: events of jobs of other servers are kept; null if there are no
/// owners
Result<std::int64_t> prune_events(SqlDatabase& database, const Retention& keep,
                                  const std::string* server);

/// The functions that only read, shared by both databases.
class SqlStore : public Store {
 public:
  Result<std::vector<StoredJob>> jobs() override;
  Result<std::optional<StoredJob>> job(const std::string& id) override;
  Result<std::optional<std::string>> plans(const std::string& id) override;
  Result<std::map<std::string, std::string>> parts(const std::string& id) override;
  Result<std::vector<JobSummary>> summaries() override;
  Result<std::optional<JobSummary>> summary(const std::string& id) override;
  Result<std::optional<ClockMark>> clock() override;
  Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                          int limit) override;

 protected:
  /// Returns the database with a connection.
  virtual Result<SqlDatabase*> connected() HARPE_REQUIRES(mutex_) = 0;
  /// Runs a statement and reads each of its rows.
  template <class One, class Read>
  Result<std::vector<One>> rows(const char* statement, std::initializer_list<SqlValue> values,
                                const Read& read) {
    const MutexLock lock(mutex_);
    SqlDatabase* const database = HARPE_TRY(connected());
    std::vector<One> found;
    HARPE_TRY(database->execute(statement, values,
                                [&](const SqlRow& row) { found.push_back(read(row)); }));
    return found;
  }

  Mutex mutex_;  ///< protects the database
};

}  // namespace harpe::training
