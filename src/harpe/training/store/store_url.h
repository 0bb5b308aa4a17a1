#pragma once
/// \file
/// URL of the database of jobs:
///
///     sqlite:PATH
///     postgresql://[USER[:PASSWORD]@][HOST[:PORT][,HOST[:PORT]...]][/DATABASE][?NAME=VALUE[&...]]
///
/// In the second form, a character that is not a letter, a digit or one of `-._~` may be written as
/// `%XX`, and must be if it has a special meaning. A HOST is a name, an address, `[IPv6]`, or the
/// directory of a Unix socket (`%2Frun%2Fpostgresql`). NAME is `schema` (the schema of Harpe's
/// tables), `host` (the directory of a Unix socket) or another libpq parameter listed in
/// store_url.cc: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-PARAMKEYWORDS
///
/// libpq parses the URL, as for other programs of PostgreSQL. This file checks for errors that
/// libpq ignores, and for errors whose libpq message would contain the password.

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

  /// Parses a URL. Reports all errors at once, as `kInvalidInput`, and never shows the password.
  static Result<StoreUrl> parse(std::string_view text);

  /// Returns the value of a parameter, empty if the URL does not have it.
  const std::string& parameter(const std::string& name) const;
};

}  // namespace harpe::training
