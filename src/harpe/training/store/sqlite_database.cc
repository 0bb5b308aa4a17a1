#include "harpe/training/store/sqlite_database.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "harpe/base/text.h"

namespace harpe::training {
namespace {

bool is_out_of_space(int code, int system_error) {
  return (code & 0xff) == SQLITE_FULL || system_error == ENOSPC || system_error == EDQUOT ||
         system_error == EFBIG;
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class SqliteRow final : public SqlRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  std::string text(int column) const override {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return data != nullptr ? std::string(data, static_cast<std::size_t>(size)) : std::string();
  }
  std::int64_t integer(int column) const override {
    return sqlite3_column_int64(statement_, column);
  }
  double number(int column) const override { return sqlite3_column_double(statement_, column); }

 private:
  sqlite3_stmt* statement_;
};

std::string without_prefixes(std::string statement) {
  constexpr std::string_view kPrefix = "harpe_";
  for (std::size_t at = 0; (at = statement.find(kPrefix, at)) != std::string::npos;) {
    statement.erase(at, kPrefix.size());
  }
  return statement;
}

/// Binds values by the number in the name of each parameter, such as 3 in `$3::bigint`.
void bind_values(sqlite3_stmt* statement, std::span<const SqlValue> values) {
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); ++i) {
    const auto number = static_cast<std::size_t>(
        std::atoi(sqlite3_bind_parameter_name(statement, i) + 1));  // after the '$'
    values[number - 1].visit([&](const auto& value) {
      if constexpr (std::is_same_v<decltype(value), const double&>) {
        sqlite3_bind_double(statement, i, value);
      } else if constexpr (std::is_same_v<decltype(value), const std::int64_t&>) {
        sqlite3_bind_int64(statement, i, value);
      } else {
        sqlite3_bind_text64(statement, i, value->data(), value->size(), SQLITE_STATIC, SQLITE_UTF8);
      }
    });
  }
}

}  // namespace

void SqliteDatabase::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Status SqliteDatabase::open() {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path_.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) return error(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, static_cast<int>(timeout_.value * 1000));
  return ok_status();
}

Status SqliteDatabase::run(const char* statements) {
  errno = 0;
  const int code = sqlite3_exec(handle_.get(), statements, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return ok_status();
}

Result<std::int64_t> SqliteDatabase::execute(const char* statement,
                                             std::initializer_list<SqlValue> values,
                                             const Visit& visit) {
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_.get(), without_prefixes(statement).c_str(), -1, &handle, nullptr);
  if (code != SQLITE_OK) return error(code);
  const std::unique_ptr<sqlite3_stmt, Finalize> prepared(handle);
  bind_values(handle, values);
  const SqliteRow row(handle);
  while (true) {
    errno = 0;
    const int stepped = sqlite3_step(handle);
    if (stepped == SQLITE_DONE) return sqlite3_changes64(handle_.get());
    if (stepped != SQLITE_ROW) return error(stepped);
    if (visit) visit(row);
  }
}

Result<std::string> SqliteDatabase::value(const char* statement) {
  std::optional<std::string> first;
  HARPE_TRY(execute(statement, {}, [&](const SqlRow& row) {
    if (!first) first = row.text(0);
  }));
  return first.value_or("");
}

bool SqliteDatabase::in_transaction() const {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

Error SqliteDatabase::error(int code) const {
  // SQLite does not keep the system error of a failed commit.
  const int last_error = errno;
  int system_error = handle_ ? sqlite3_system_errno(handle_.get()) : 0;
  if (system_error == 0 && (code & 0xff) == SQLITE_IOERR) system_error = last_error;
  const std::string said = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const std::string reason =
      system_error != 0 ? said + ": " + std::generic_category().message(system_error) : said;
  const auto with = [this](ErrorCode kind, std::string message) {
    return Error{kind, {{.file = path_, .message = std::move(message)}}};
  };
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return with(ErrorCode::kIo,
                  "is damaged or not a SQLite database (" + said +
                      "); stop the server and restore a backup, or save what can be read with: "
                      "sqlite3 FILE .recover");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return with(ErrorCode::kUnavailable,
                  "has been locked by another program (such as a backup) for more than " +
                      shortest(timeout_.value) + " s: " + said);
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return with(ErrorCode::kNoPermission,
                  "cannot be written: " + reason +
                      "; the server's user needs to write the file and its directory");
    case SQLITE_NOMEM:
      return with(ErrorCode::kUnavailable, "there is not enough memory: " + said);
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      break;
    default:
      return with(ErrorCode::kInternal, "SQLite refused: " + said);
  }
  if (is_out_of_space(code, system_error)) {
    return with(ErrorCode::kIo,
                "cannot be written: no space is left (" + said +
                    "); this change was not saved: free some space, and saving continues");
  }
  const bool permission = system_error == EACCES || system_error == EPERM || system_error == EROFS;
  return with(permission ? ErrorCode::kNoPermission : ErrorCode::kIo,
              "cannot be read or written: " + reason);
}

SqliteTransaction::~SqliteTransaction() {
  // If this fails, the change is not in the database either, because it was never committed.
  if (database_.in_transaction()) (void)database_.run("ROLLBACK");
}

}  // namespace harpe::training
