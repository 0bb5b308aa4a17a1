#pragma once
/// \file
/// An open SQLite file; SQLite's codes become errors with advice. Not thread-safe.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/training/store/sql_store.h"

struct sqlite3;

namespace harpe::training {

class SqliteDatabase final : public SqlDatabase {
 public:
  /// `timeout` limits the wait for another program (a backup) that locks the file.
  SqliteDatabase(std::string path, Seconds timeout) : path_(std::move(path)), timeout_(timeout) {}
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  /// Opens or creates the file.
  Status open();

  /// Tables have no prefix here: `harpe_job` in the statement is the table `job`.
  Result<std::int64_t> execute(const char* statement, std::initializer_list<SqlValue> values = {},
                               const Visit& visit = {}) override;
  /// Runs statements without parameters. Never pass external text.
  Status run(const char* statements);
  /// Returns the first column of the first row as text, empty if there is no row.
  Result<std::string> value(const char* statement);

  /// Returns true if a transaction is open.
  bool in_transaction() const;

 private:
  /// Returns the error for a code of SQLite.
  Error error(int code) const;

  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::string path_;
  Seconds timeout_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A transaction: the statements between `begin` and `commit` take effect together or not at all.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database) : database_(database) {}
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  ~SqliteTransaction();
  Status begin() { return database_.run("BEGIN IMMEDIATE"); }
  Status commit() { return database_.run("COMMIT"); }

 private:
  SqliteDatabase& database_;
};

}  // namespace harpe::training
