#pragma once
/// \file
/// One connection to PostgreSQL over libpq, with every wait bounded, and its codes as errors that
/// say what to do. Values go as parameters, never into the statement's text. Not thread-safe.

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

/// The database stops a statement that takes longer than the timeout of its session; where even
/// that does not come, this side gives up so much later.
inline constexpr Seconds kStatementGrace = 2_s;

/// What a statement gave.
class PostgresRows {
 public:
  int size() const;
  std::string text(int row, int column) const;
  std::int64_t integer(int row, int column) const {
    return parse_integer(text(row, column)).value_or(0);
  }
  double number(int row, int column) const { return parse_number(text(row, column)).value_or(0); }
  bool truth(int row, int column) const { return text(row, column) == "t"; }
  /// How many rows it inserted, updated or deleted.
  std::int64_t changed() const;
  /// The command that ran: "COMMIT".
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
  /// `timeout` bounds the wait for one statement's answer, and for each host to connect to.
  PostgresSession(StoreUrl url, Seconds timeout) : url_(std::move(url)), timeout_(timeout) {}
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  /// A new connection in place of the one there was.
  Status connect();
  void disconnect() { connection_.reset(); }

  /// Whether there is a connection that the server has not closed, as far as this side knows.
  bool is_alive();

  /// Runs one statement. After `kUnavailable` the connection may be gone: see `is_alive`.
  Result<PostgresRows> query(const char* statement,
                             std::initializer_list<SqlValue> parameters = {});
  Result<std::int64_t> execute(const char* statement, std::initializer_list<SqlValue> values = {},
                               const Visit& visit = {}) override;

  /// Runs statements without parameters, never text that came from outside, within `timeout`.
  Status script(const char* statements, Seconds timeout);

  /// Whether a transaction is open.
  bool in_transaction() const;

  /// The next notification that has arrived, or nothing; waits for none.
  std::optional<std::string> next_event();
  /// Takes in what has arrived; an error where the connection is gone.
  Status take_in();
  /// To wait for something to arrive; -1 without a connection.
  int socket() const;

  const StoreUrl& url() const { return url_; }

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };

  Result<PostgresRows> respond(Seconds timeout, bool sent);
  /// Waits until the connection can be read (or written), false at the deadline.
  bool wait(bool to_write, std::int64_t deadline_ns) const;
  Status send_rest(std::int64_t deadline_ns);
  Error lost(const std::string& why);
  Error refused(const PostgresRows& rows);
  std::string without_password(std::string text) const;

  StoreUrl url_;
  Seconds timeout_;
  std::unique_ptr<pg_conn, Finish> connection_;
};

/// Everything between its begin and `commit` happens, or nothing.
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
