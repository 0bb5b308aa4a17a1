#pragma once
/// \file
/// One connection to PostgreSQL over libpq. Every wait is bounded, and PostgreSQL's codes become
/// errors with advice. Values are passed as parameters, never in the statement's text. Not
/// thread-safe.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/base/units.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/store_url.h"

struct pg_conn;
struct pg_result;

namespace harpe::training {

/// The database stops a statement after the timeout of its session. If it does not, this side gives
/// up after this additional time.
inline constexpr Seconds kStatementGrace = 2_s;

/// The result of a statement.
class PostgresRows {
 public:
  int size() const;
  std::string text(int row, int column) const;
  std::int64_t integer(int row, int column) const {
    return parse_integer(text(row, column)).value_or(0);
  }
  double number(int row, int column) const { return parse_number(text(row, column)).value_or(0); }
  bool truth(int row, int column) const { return text(row, column) == "t"; }
  /// Returns the number of rows inserted, updated or deleted.
  std::int64_t changed() const;
  /// Returns the command that ran: "COMMIT".
  std::string command() const;

 private:
  friend class PostgresSession;
  struct Clear {
    void operator()(pg_result* result) const;
  };
  explicit PostgresRows(pg_result* result) : result_(result) {}
  std::unique_ptr<pg_result, Clear> result_;
};

class PostgresSession final : public SqlDatabase {
 public:
  /// `timeout` limits the wait for a statement's response, and for each host when connecting.
  PostgresSession(StoreUrl url, Seconds timeout) : url_(std::move(url)), timeout_(timeout) {}
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  /// Opens a new connection, replacing the current one.
  Status connect();
  void disconnect() { connection_.reset(); }

  /// Returns true if there is a connection that is not known to be closed.
  bool is_alive();

  /// Runs one statement. After `kUnavailable` the connection may be gone: see `is_alive`.
  Result<PostgresRows> query(const char* statement,
                             std::initializer_list<SqlValue> parameters = {});
  Result<std::int64_t> execute(const char* statement, std::initializer_list<SqlValue> values = {},
                               const Visit& visit = {}) override;

  /// Runs statements without parameters within `timeout`. Never pass external text.
  Status script(const char* statements, Seconds timeout);

  /// Returns true if a transaction is open.
  bool in_transaction() const;

  /// Returns the next received notification, or nullopt; does not wait.
  std::optional<std::string> next_event();
  /// Reads the received data; fails if the connection is lost.
  Status take_in();
  /// Returns the socket for waiting; -1 without a connection.
  int socket() const;

  const StoreUrl& url() const { return url_; }

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };

  Result<PostgresRows> respond(Seconds timeout, bool sent);
  /// Waits until the connection is readable (or writable). Returns false at the deadline.
  bool wait(bool to_write, std::int64_t deadline_ns) const;
  Status send_rest(std::int64_t deadline_ns);
  Error lost(const std::string& why);
  Error refused(const PostgresRows& rows);
  std::string without_password(std::string text) const;

  StoreUrl url_;
  Seconds timeout_;
  std::unique_ptr<pg_conn, Finish> connection_;
};

/// A transaction: the statements between `begin` and `commit` take effect together or not at all.
class PostgresTransaction {
 public:
  explicit PostgresTransaction(PostgresSession& session) : session_(session) {}
  PostgresTransaction(const PostgresTransaction&) = delete;
  PostgresTransaction& operator=(const PostgresTransaction&) = delete;
  ~PostgresTransaction();
  Status begin();
  Status commit();

 private:
  PostgresSession& session_;
};

}  // namespace harpe::training
