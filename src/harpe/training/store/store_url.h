#pragma once
/// \file
/// Which database to keep jobs in, as one text:
///
///     sqlite:PATH
///     postgresql://[USER[:PASSWORD]@][HOST[:PORT][,HOST[:PORT]...]][/DATABASE][?NAME=VALUE[&...]]
///
/// In the second, what is not a letter, a digit or one of `-._~` may be written as `%XX`, and must
/// be where it would mean something else. A HOST is a name, an address, `[IPv6]`, or the directory
/// of a Unix socket (`%2Frun%2Fpostgresql`). NAMEs are those in `parameter_names`; anything else is
/// an error.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

struct StoreUrl {
  enum class Kind : unsigned char { kSqlite, kPostgresql };
  struct Host {
    std::string name;
    int port = 0;  ///< 0: the usual one
    friend bool operator==(const Host&, const Host&) = default;
  };

  Kind kind = Kind::kSqlite;
  std::string path;  ///< SQLite alone has one
  std::vector<Host> hosts;
  std::string user, password, database;
  std::vector<std::pair<std::string, std::string>> parameters;

  /// Reads a URL. Diagnostics are `kInvalidInput`, all at once, and never show the password.
  static Result<StoreUrl> parse(std::string_view text);

  /// The URL for messages: a password is shown as `***`.
  std::string text() const;
  /// The URL with the password, which reads back as this one.
  std::string text_with_password() const;

  friend bool operator==(const StoreUrl&, const StoreUrl&) = default;
};

/// `schema` (the schema of Harpe's tables), `host` (a Unix socket's directory) and parameters of
/// libpq: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-PARAMKEYWORDS
const std::vector<std::string>& parameter_names();

}  // namespace harpe
