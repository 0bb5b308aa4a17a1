#include "harpe/training/store/postgres_session.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/training/store/sql_store.h"

namespace harpe::training {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::int64_t after(Seconds time) {
  return now_ns() + static_cast<std::int64_t>(time.value * 1e9);
}

std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char c : trim(text)) {
    if (c == '\n') {
      line += "; ";
    } else if (c != '\t' && c != '\r') {
      line += c;
    }
  }
  return line;
}

/// Returns the error code for a class or code of SQLSTATE.
/// https://www.postgresql.org/docs/15/errcodes-appendix.html
ErrorCode code_of(std::string_view state) {
  if (state.starts_with("08") || state.starts_with("40") || state.starts_with("57") ||
      state == "53200" || state == "53300" || state == "55P03" || state == "25006") {
    return ErrorCode::kUnavailable;
  }
  if (state.starts_with("53") || state.starts_with("58") || state.starts_with("XX")) {
    return ErrorCode::kIo;  // no space, a file that cannot be read, damaged data
  }
  if (state == "3F000" || state == "42P01") return ErrorCode::kNotFound;
  if (state == "42501" || state.starts_with("28")) return ErrorCode::kNoPermission;
  return ErrorCode::kInternal;
}

std::string_view advice_for(std::string_view state) {
  if (state == "53100") return "; the database's disk is full: this change was not saved";
  if (state == "25006")
    return "; this database server is read-only: name the one that accepts writes";
  if (state == "42501") return "; the database user must own Harpe's tables, see docs/storage.md";
  if (state == "3F000") return "; create the schema first, see docs/storage.md";
  if (state == "42P01")
    return "; Harpe's tables were removed: restore a backup, or restart the server";
  return "";
}

/// Names and values for PQconnectdbParams.
struct ConnectionParameters {
  std::vector<std::string> names, values;

  void add(const std::string& name, const std::string& value) {
    if (value.empty() || std::ranges::find(names, name) != names.end()) return;
    names.push_back(name);
    values.push_back(value);
  }
};

ConnectionParameters parameters_of(const StoreUrl& url, Seconds timeout) {
  ConnectionParameters all;
  for (const auto& [name, value] : url.parameters) {
    if (name != "schema") all.add(name, value);
  }
  const std::string& schema = url.parameter("schema");
  all.add("application_name", "harpe");
  all.add("client_encoding", "UTF8");
  all.add("target_session_attrs", "read-write");
  const auto milliseconds = std::to_string(static_cast<std::int64_t>(timeout.value * 1000));
  all.add("connect_timeout",
          std::to_string(std::max(2, static_cast<int>(std::ceil(timeout.value)))));
  // Each side detects a failure of the other's machine within about half a minute. This also frees
  // the jobs that a lost server owned.
  all.add("keepalives_idle", "10");
  all.add("keepalives_interval", "5");
  all.add("keepalives_count", "3");
  all.add("tcp_user_timeout", "20000");
  all.add("options", "-c statement_timeout=" + milliseconds +
                         " -c idle_in_transaction_session_timeout=30000 -c tcp_keepalives_idle=10"
                         " -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3" +
                         (schema.empty() ? "" : " -c search_path=" + schema));
  return all;
}

class PostgresRow final : public SqlRow {
 public:
  PostgresRow(const PostgresRows& rows, int row) : rows_(rows), row_(row) {}
  std::string text(int column) const override { return rows_.text(row_, column); }
  std::int64_t integer(int column) const override { return rows_.integer(row_, column); }
  double number(int column) const override { return rows_.number(row_, column); }

 private:
  const PostgresRows& rows_;
  int row_;
};

}  // namespace

void PostgresRows::Clear::operator()(pg_result* result) const {
  PQclear(result);
}

int PostgresRows::size() const {
  return PQntuples(result_.get());
}

std::string PostgresRows::text(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t PostgresRows::changed() const {
  return parse_integer(PQcmdTuples(result_.get())).value_or(0);
}

std::string PostgresRows::command() const {
  return PQcmdStatus(result_.get());
}

void PostgresSession::Finish::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

Status PostgresSession::connect() {
  const ConnectionParameters all = parameters_of(url_, timeout_);
  std::vector<const char*> names, values;
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    names.push_back(all.names[i].c_str());
    values.push_back(all.values[i].c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_.reset(PQconnectdbParams(names.data(), values.data(), 0));
  if (!connection_) return Error::of(ErrorCode::kUnavailable, "there is not enough memory");
  // Discards the server's notices, which would go to stderr.
  PQsetNoticeProcessor(connection_.get(), [](void*, const char*) {}, nullptr);
  if (PQstatus(connection_.get()) == CONNECTION_OK && PQsetnonblocking(connection_.get(), 1) == 0) {
    return ok_status();
  }
  const std::string why = without_password(in_one_line(PQerrorMessage(connection_.get())));
  connection_.reset();
  // For a refused connection, libpq has no code, only a message.
  const bool who = why.find("authentication") != std::string::npos ||
                   why.find("no password supplied") != std::string::npos ||
                   why.find("permission denied") != std::string::npos;
  if (who) {
    return Error::of(ErrorCode::kNoPermission,
                     "PostgreSQL at " + url_.text + " refused the login: " + why +
                         " (give the password in ~/.pgpass or PGPASSWORD of the server's user)");
  }
  return Error::of(ErrorCode::kUnavailable,
                   "PostgreSQL cannot be reached at " + url_.text + ": " + why);
}

bool PostgresSession::is_alive() {
  if (!connection_) return false;
  pollfd ready{PQsocket(connection_.get()), POLLIN, 0};
  // Unrequested input is a notification, a final message or the end of the connection.
  if (::poll(&ready, 1, 0) > 0) {
    const bool read = PQconsumeInput(connection_.get()) == 1;
    // A final message ("terminating connection") is read before the end of the connection.
    const bool more = read && ::poll(&ready, 1, 0) > 0 && PQconsumeInput(connection_.get()) != 1;
    if (!read || more || PQstatus(connection_.get()) != CONNECTION_OK) {
      connection_.reset();
      return false;
    }
  }
  return PQstatus(connection_.get()) == CONNECTION_OK;
}

bool PostgresSession::in_transaction() const {
  return connection_ && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE;
}

int PostgresSession::socket() const {
  return connection_ ? PQsocket(connection_.get()) : -1;
}

Result<PostgresRows> PostgresSession::query(const char* statement,
                                            std::initializer_list<SqlValue> parameters) {
  if (!connection_) return lost("there is no connection");
  std::vector<std::string> numbers;
  numbers.reserve(parameters.size());  // `values` points into it
  std::vector<const char*> values;
  for (const SqlValue& parameter : parameters) {
    values.push_back(parameter.visit([&](const auto& value) {
      if constexpr (std::is_same_v<decltype(value), const double&>) {
        return numbers.emplace_back(shortest(value)).c_str();
      } else if constexpr (std::is_same_v<decltype(value), const std::int64_t&>) {
        return numbers.emplace_back(std::to_string(value)).c_str();
      } else {
        return value->c_str();
      }
    }));
  }
  const bool sent = PQsendQueryParams(connection_.get(), statement, static_cast<int>(values.size()),
                                      nullptr, values.data(), nullptr, nullptr, 0) == 1;
  return respond(timeout_, sent);
}

Result<std::int64_t> PostgresSession::execute(const char* statement,
                                              std::initializer_list<SqlValue> values,
                                              const Visit& visit) {
  const PostgresRows rows = HARPE_TRY(query(statement, values));
  for (int i = 0; visit && i < rows.size(); ++i) visit(PostgresRow(rows, i));
  return rows.changed();
}

Status PostgresSession::script(const char* statements, Seconds timeout) {
  if (!connection_) return lost("there is no connection");
  HARPE_TRY(respond(timeout, PQsendQuery(connection_.get(), statements) == 1));
  return ok_status();
}

Result<PostgresRows> PostgresSession::respond(Seconds timeout, bool sent) {
  if (!sent) return lost(PQerrorMessage(connection_.get()));
  const std::int64_t deadline = after(timeout + kStatementGrace);
  HARPE_TRY(send_rest(deadline));
  std::optional<PostgresRows> last;
  std::optional<Error> error;
  while (true) {
    while (PQisBusy(connection_.get()) == 1) {
      if (!wait(false, deadline)) return lost("no answer for " + shortest(timeout.value) + " s");
      if (PQconsumeInput(connection_.get()) != 1) return lost(PQerrorMessage(connection_.get()));
    }
    PGresult* result = PQgetResult(connection_.get());
    if (result == nullptr) break;
    PostgresRows rows(result);
    const ExecStatusType status = PQresultStatus(result);
    const bool good =
        status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
    if (!good && !error) error = refused(rows);
    last.emplace(std::move(rows));
  }
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    return lost(error ? error->text() : PQerrorMessage(connection_.get()));
  }
  if (error) return *std::move(error);
  if (!last) return lost("it returned an empty answer");
  return *std::move(last);
}

Status PostgresSession::send_rest(std::int64_t deadline_ns) {
  while (true) {
    const int rest = PQflush(connection_.get());
    if (rest == 0) return ok_status();
    if (rest < 0) return lost(PQerrorMessage(connection_.get()));
    if (!wait(true, deadline_ns)) return lost("it does not accept more data");
    // The server may have to send before it continues to read.
    if (PQconsumeInput(connection_.get()) != 1) return lost(PQerrorMessage(connection_.get()));
  }
}

bool PostgresSession::wait(bool to_write, std::int64_t deadline_ns) const {
  const short events = to_write ? POLLIN | POLLOUT : POLLIN;
  while (true) {
    const std::int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd ready{PQsocket(connection_.get()), events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

Error PostgresSession::lost(const std::string& why) {
  const std::string reason = without_password(in_one_line(why));
  connection_.reset();
  return Error::of(ErrorCode::kUnavailable,
                   "the connection to PostgreSQL at " + url_.text + " was lost: " + reason);
}

Error PostgresSession::refused(const PostgresRows& rows) {
  const auto field = [&](int which) {
    const char* text = PQresultErrorField(rows.result_.get(), which);
    return std::string(text != nullptr ? text : "");
  };
  const std::string state = field(PG_DIAG_SQLSTATE);
  std::string said = field(PG_DIAG_MESSAGE_PRIMARY);
  if (said.empty()) said = PQerrorMessage(connection_.get());
  if (const std::string hint = field(PG_DIAG_MESSAGE_HINT); !hint.empty())
    said += " (" + hint + ")";
  return Error::of(state.empty() ? ErrorCode::kUnavailable : code_of(state),
                   "PostgreSQL at " + url_.text + ": " + without_password(in_one_line(said)) +
                       (state.empty() ? "" : " [" + state + "]") + std::string(advice_for(state)));
}

Status PostgresSession::take_in() {
  if (!connection_) return lost("there is no connection");
  if (PQconsumeInput(connection_.get()) != 1) return lost(PQerrorMessage(connection_.get()));
  return ok_status();
}

std::optional<std::string> PostgresSession::next_event() {
  if (!connection_) return std::nullopt;
  PGnotify* const notification = PQnotifies(connection_.get());
  if (notification == nullptr) return std::nullopt;
  std::string text = notification->extra != nullptr ? notification->extra : "";
  PQfreemem(notification);
  return text;
}

std::string PostgresSession::without_password(std::string text) const {
  const std::string& password = url_.parameter("password");
  if (password.empty()) return text;
  for (std::size_t at = 0; (at = text.find(password, at)) != std::string::npos; at += 3) {
    text.replace(at, password.size(), "***");
  }
  return text;
}

Result<std::map<std::string, std::string>> postgres_parameters(const std::string& url) {
  struct Free {
    void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
  };
  // The message of libpq is omitted, because it may include the password.
  const std::unique_ptr<PQconninfoOption, Free> options(PQconninfoParse(url.c_str(), nullptr));
  if (options == nullptr) return Error::invalid("libpq cannot read this URL");
  std::map<std::string, std::string> read;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr && *option->val != '\0') read[option->keyword] = option->val;
  }
  return read;
}

PostgresTransaction::~PostgresTransaction() {
  // If this fails, the connection is lost, and the server rolls back.
  if (session_.in_transaction()) (void)session_.query("ROLLBACK");
}

Status PostgresTransaction::begin() {
  HARPE_TRY(session_.query("BEGIN"));
  return ok_status();
}

Status PostgresTransaction::commit() {
  const auto done = HARPE_TRY(session_.query("COMMIT"));
  if (done.command() != "COMMIT") {
    return Error::internal("PostgreSQL rolled back a transaction without a reason");
  }
  return ok_status();
}

}  // namespace harpe::training
