#include "harpe/training/store/sqlite_database.h"

#include <sqlite3.h>

#include <cerrno>
#include <system_error>

#include "harpe/base/text.h"

namespace harpe {
namespace {

bool is_out_of_space(int code, int system_error) {
  return (code & 0xff) == SQLITE_FULL || system_error == ENOSPC || system_error == EDQUOT ||
         system_error == EFBIG;
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteStatement& SqliteStatement::bind(std::string_view text) {
  // A null pointer would be bound as NULL.
  const char* data = text.data() != nullptr ? text.data() : "";
  sqlite3_bind_text64(statement_.get(), ++bound_, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

SqliteStatement& SqliteStatement::bind(std::int64_t number) {
  sqlite3_bind_int64(statement_.get(), ++bound_, number);
  return *this;
}

SqliteStatement& SqliteStatement::bind(double number) {
  sqlite3_bind_double(statement_.get(), ++bound_, number);
  return *this;
}

Result<bool> SqliteStatement::step() {
  errno = 0;
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->error(code);
}

std::string SqliteStatement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data != nullptr ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

Result<std::int64_t> SqliteStatement::run() {
  while (true) {
    const Result<bool> row = step();
    if (!row.ok()) {
      sqlite3_reset(statement_.get());
      return row.error();
    }
    if (!*row) break;
  }
  const std::int64_t changed = sqlite3_changes64(sqlite3_db_handle(statement_.get()));
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bound_ = 0;
  return changed;
}

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

Result<SqliteStatement> SqliteDatabase::prepare(const char* statement) {
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), statement, -1, &prepared, nullptr);
  if (code != SQLITE_OK) return error(code);
  return SqliteStatement(*this, prepared);
}

Result<std::string> SqliteDatabase::value(const char* statement) {
  auto prepared = HARPE_TRY(prepare(statement));
  const bool row = HARPE_TRY(prepared.step());
  return row ? prepared.text(0) : std::string();
}

bool SqliteDatabase::in_transaction() const {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

Error SqliteDatabase::error(int code) const {
  // SQLite does not keep what the system said where a commit fails.
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
                  "is damaged or no SQLite database (" + said +
                      "); stop the server and restore a backup, or save what can be read with: "
                      "sqlite3 FILE .recover");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return with(ErrorCode::kUnavailable,
                  "is held up by another program (such as a backup) for more than " +
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
                "there is no space left to write it (" + said +
                    "); this change was not saved: free some space, and saving goes on");
  }
  const bool permission = system_error == EACCES || system_error == EPERM || system_error == EROFS;
  return with(permission ? ErrorCode::kNoPermission : ErrorCode::kIo,
              "cannot be read or written: " + reason);
}

SqliteTransaction::~SqliteTransaction() {
  // Where this fails the change is not in the database either: it was never committed.
  if (database_.in_transaction()) (void)database_.run("ROLLBACK");
}

Status SqliteTransaction::begin() {
  return database_.run("BEGIN IMMEDIATE");
}

Status SqliteTransaction::commit() {
  return database_.run("COMMIT");
}

}  // namespace harpe
