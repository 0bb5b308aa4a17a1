#pragma once
/// \file
/// The URL of the database that jobs are kept in:
///
///     sqlite:PATH
///     postgresql://[USER[:PASSWORD]@][HOST[:PORT][,HOST[:PORT]...]][/DATABASE][?NAME=VALUE[&...]]
///
/// In the second form, a character that is not a letter, a digit or one of `-._~` may be written as
/// `%XX`, and must be if it would mean something else. A HOST is a name, an address, `[IPv6]`, or
/// the directory of a Unix socket (`%2Frun%2Fpostgresql`). NAME is `schema` (the schema of Harpe's
/// tables), `host` (the directory of a Unix socket) or another parameter of libpq that store_url.cc
/// lists: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-PARAMKEYWORDS
///
/// libpq reads such a URL, so that nothing differs from other programs of PostgreSQL. Errors that
/// it does not notice are found here, and errors that it would report with the password in them.

#include <map>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::training {

struct StoreUrl {
  enum class Kind : unsigned char { kSqlite, kPostgresql };
  Kind kind = Kind::kSqlite;
  std::string path = {};  ///< of SQLite
  /// Parameters of libpq by name, for PostgreSQL, such as "host" and "password"; and "schema".
  std::map<std::string, std::string> parameters = {};
  std::string text = {};  ///< the URL for messages: a password is shown as `***`

  /// Reads a URL. Diagnostics are `kInvalidInput`, all at once, and never show the password.
  static Result<StoreUrl> parse(std::string_view text);

  /// Returns the value of a parameter, empty if the URL does not have it.
  const std::string& parameter(const std::string& name) const;
};

}  // namespace harpe::training
