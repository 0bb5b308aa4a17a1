#pragma once
/// \file
/// One open SQLite file, and SQLite's codes as errors that say what to do. Not thread-safe.

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
  /// `timeout`: how long another program (a backup) may hold the file up before a call fails.
  SqliteDatabase(std::string path, Seconds timeout) : path_(std::move(path)), timeout_(timeout) {}
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  /// Opens or creates the file.
  Status open();

  /// The statement's tables have no prefix here: `harpe_job` is the table `job`.
  Result<std::int64_t> execute(const char* statement, std::initializer_list<SqlValue> values = {},
                               const Visit& visit = {}) override;
  /// Runs statements without parameters: never text that came from outside.
  Status run(const char* statements);
  /// Returns the first column of the first row as text, empty if there is no row.
  Result<std::string> value(const char* statement);

  /// Returns true if a transaction is open.
  bool in_transaction() const;

 private:
  /// Returns the error behind a code of SQLite.
  Error error(int code) const;

  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::string path_;
  Seconds timeout_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// Everything between its begin and `commit` happens, or nothing.
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
