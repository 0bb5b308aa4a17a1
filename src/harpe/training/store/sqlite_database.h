#pragma once
/// \file
/// SQLite's handles with owners, and its codes as errors that say what to do. Not thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

struct sqlite3;
struct sqlite3_stmt;

namespace harpe {

/// A prepared statement. Parameters are bound in their order; texts must outlive the last `step`.
class SqliteStatement {
 public:
  SqliteStatement& bind(std::string_view text);
  SqliteStatement& bind(std::int64_t number);
  SqliteStatement& bind(double number);

  /// Whether there is a row; its columns count from 0.
  Result<bool> step();
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double number(int column) const;

  /// Runs to the end, and says how many rows it changed. Can be bound and run again afterwards.
  Result<std::int64_t> run();

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(const class SqliteDatabase& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}

  const SqliteDatabase* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

/// One open file. Stays where it is: statements point to it.
class SqliteDatabase {
 public:
  /// `timeout`: how long another program (a backup) may hold the file up before a call fails.
  SqliteDatabase(std::string path, Seconds timeout) : path_(std::move(path)), timeout_(timeout) {}
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  /// Opens or creates the file.
  Status open();

  /// Runs statements without parameters: never text that came from outside.
  Status run(const char* statements);
  Result<SqliteStatement> prepare(const char* statement);
  /// The first column of the first row as text, empty where there is none.
  Result<std::string> value(const char* statement);

  /// Whether a transaction is open.
  bool in_transaction() const;
  const std::string& path() const { return path_; }

  /// The error behind a code of SQLite.
  Error error(int code) const;

 private:
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
  Status begin();
  Status commit();

 private:
  SqliteDatabase& database_;
};

}  // namespace harpe
