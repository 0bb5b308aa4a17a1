#include "harpe/training/store/store_url.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/training/store/sql_store.h"

namespace harpe::training {
namespace {

constexpr std::string_view kExamples =
    "write sqlite:/var/lib/harpe/harpe.db or postgresql://user@host/database";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the parts of a text between separators; the whole text if there are none.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return parts;
}

/// A check of a PostgreSQL URL by its text, before libpq reads it: libpq stops at the first error
/// and shows the password in it, and it accepts a database "a/b", "h:" for a port, an empty user or
/// password, `[1.2.3.4]`, '#', and a parameter twice.
class PostgresUrlCheck {
 public:
  /// \param rest  text after "postgresql://"
  Result<StoreUrl> read(std::string_view rest) {
    const std::size_t question = rest.find('?');
    const std::string_view before = rest.substr(0, question);
    const std::size_t slash = before.find('/');
    std::string_view hosts = before.substr(0, slash);
    if (rest.find('@', hosts.size()) != std::string_view::npos) {
      // The '@' is likely part of a password. The host and port parsed from it must not be shown.
      return Error::invalid(
          "'@' appears after the first '/' or '?': in a password write %2F for '/' and %3F "
          "for '?', and elsewhere %40 for '@'");
    }
    check_bytes(rest);
    std::string user;
    // The last '@', because users often leave an '@' of a password unencoded: the password must not
    // become a host.
    if (const std::size_t at = hosts.rfind('@'); at != std::string_view::npos) {
      user = hosts.substr(0, at);
      check_user(user);
      hosts.remove_prefix(at + 1);
    }
    if (!hosts.empty()) {
      for (const std::string_view host : split(hosts, ',')) check_host(host);
    }
    const std::string_view database =
        slash == std::string_view::npos ? std::string_view() : before.substr(slash + 1);
    if (database.find('/') != std::string_view::npos) {
      diagnostics_.add("the database " + in_quotes(database) + " has a '/' (write %2F)");
    }
    if (question != std::string_view::npos && question + 1 < rest.size()) {
      for (const std::string_view parameter : split(rest.substr(question + 1), '&')) {
        if (!parameter.empty()) check_parameter(parameter, !hosts.empty());
      }
    }
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    const std::string scheme = "postgresql://";
    const std::string address =
        std::string(hosts) + (slash == std::string_view::npos ? "" : "/") + std::string(database);
    const std::string at = user.empty() ? "" : "@";
    StoreUrl url{.kind = StoreUrl::Kind::kPostgresql};
    url.parameters = HARPE_TRY(postgres_parameters(scheme + user + at + address +
                                                   (for_libpq_.empty() ? "" : "?" + for_libpq_)));
    if (!schema_.empty()) url.parameters["schema"] = schema_;
    const std::size_t colon = user.find(':');
    url.text = scheme + user.substr(0, colon) + (colon == std::string::npos ? "" : ":***") + at +
               std::string(rest.substr(user.size() + at.size()));
    return url;
  }

 private:
  void check_bytes(std::string_view text) {
    if (text.find('#') != std::string_view::npos) diagnostics_.add("'#' must be written as %23");
    bool has_control = std::ranges::any_of(text, is_control), has_bare_percent = false;
    for (std::size_t i = 0; (i = text.find('%', i)) != std::string_view::npos; ++i) {
      const std::string_view digits = text.substr(i + 1, 2);
      const bool is_byte = digits.size() == 2 && std::ranges::all_of(digits, [](unsigned char c) {
                             return std::isxdigit(c) != 0;
                           });
      has_bare_percent |= !is_byte;
      has_control |= is_byte && (digits[0] < '2' || digits == "7f" || digits == "7F");
    }
    if (has_control) diagnostics_.add("the URL has control characters");
    if (has_bare_percent) {
      diagnostics_.add(
          "the URL has a '%' without two hexadecimal digits after it (write %25 for '%')");
    }
  }

  void check_user(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (text.find('@') != std::string_view::npos || colon != text.rfind(':')) {
      diagnostics_.add(
          "the part before the host has more than one '@' or ':': in a user's name and in a "
          "password write %40 for '@' and %3A for ':'");
    }
    if (text.empty() || colon == 0) diagnostics_.add("the user before '@' is missing");
    if (colon == text.size() - 1) {
      diagnostics_.add("the password after ':' is empty: remove the ':' to use ~/.pgpass");
    }
  }

  void check_host(std::string_view text) {
    const bool is_bracketed = text.starts_with('[');
    const std::size_t end = is_bracketed ? text.find(']') : 0;
    const std::size_t colon = text.find(':', std::min(end, text.size()));
    const std::string_view host = text.substr(0, colon);
    const auto all = [&](std::string_view part, std::string_view also) {
      return std::ranges::all_of(part, [also](char c) {
        return is_letter_or_digit(c) || also.find(c) != std::string_view::npos;
      });
    };
    // The directory of a socket may have any character except a comma, encoded or not.
    const std::string name = lower(host);
    const bool is_directory = name.starts_with("%2f") && name.find("%2c") == std::string::npos;
    if (is_bracketed) {
      const bool is_address = host.ends_with(']') && host.find(':') != std::string_view::npos &&
                              all(host.substr(1, host.size() - 2), ":.");
      if (!is_address) {
        diagnostics_.add("the host " + in_quotes(text) + " is not an IPv6 address in brackets");
      }
    } else if (host.empty()) {
      diagnostics_.add("the name of a host is missing");
    } else if (!is_directory && !all(host, "-._")) {
      diagnostics_.add("the host " + in_quotes(host) +
                       " has a character that is not allowed in a host");
    }
    if (colon == std::string_view::npos) return;
    const std::string_view port = text.substr(colon + 1);
    const auto number = parse_integer(port);
    if (!number || !is_letter_or_digit(port.front()) || *number < 1 || *number > 65535) {
      diagnostics_.add("the port " + in_quotes(port) + " is not a number from 1 to 65535");
    }
  }

  void check_parameter(std::string_view text, bool has_host) {
    static const std::vector<std::string> kNames{"application_name",
                                                 "channel_binding",
                                                 "connect_timeout",
                                                 "gssencmode",
                                                 "host",
                                                 "krbsrvname",
                                                 "passfile",
                                                 "requirepeer",
                                                 "schema",
                                                 "sslcert",
                                                 "sslcrl",
                                                 "sslkey",
                                                 "sslmode",
                                                 "sslrootcert",
                                                 "ssl_min_protocol_version",
                                                 "target_session_attrs"};
    const std::size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (name == "password" || name == "user") {
      return diagnostics_.add(
          name + " is not a parameter: give it before '@', or better, a password in ~/.pgpass");
    }
    if (std::ranges::find(kNames, name) == kNames.end()) {
      const auto near = nearest(name, kNames);
      return diagnostics_.add("unknown parameter " + in_quotes(name) +
                              (near ? "; did you mean " + *near + "?" : ""));
    }
    if (equals == std::string_view::npos) {
      return diagnostics_.add("the parameter " + name + " has no value (write " + name + "=VALUE)");
    }
    if (!names_.insert(name).second) {
      return diagnostics_.add("the parameter " + name + " is given twice");
    }
    const std::string_view value = text.substr(equals + 1);
    check_value(name, value, has_host);
    if (name == "schema") {
      schema_ = value;
    } else {
      (for_libpq_ += for_libpq_.empty() ? "" : "&") += text;
    }
  }

  void check_value(const std::string& name, std::string_view value, bool has_host) {
    if (value.empty()) diagnostics_.add("the parameter " + name + " is empty");
    const std::string folder = lower(value);
    if (name == "host" && has_host) {
      diagnostics_.add("the host is given twice: before the database and as a parameter");
    }
    if (name == "host" && !folder.starts_with('/') && !folder.starts_with("%2f")) {
      diagnostics_.add(
          "the parameter host is for the directory of a Unix socket, which begins with '/'");
    }
    if (name == "host" &&
        (folder.find(',') != std::string::npos || folder.find("%2c") != std::string::npos)) {
      diagnostics_.add("the parameter host must be one directory, without ','");
    }
    if (name == "schema" && (value.size() > 63 || !std::ranges::all_of(value, [](char c) {
                               return is_letter_or_digit(c) || c == '_';
                             }))) {
      diagnostics_.add("the schema " + in_quotes(value) +
                       " must consist of up to 63 letters, digits and '_'");
    }
    if (name == "connect_timeout") {
      const auto seconds = parse_integer(value);
      if (!seconds || *seconds < 1 || *seconds > 3600) {
        diagnostics_.add("connect_timeout " + in_quotes(value) +
                         " is not a number of seconds from 1 to 3600");
      }
    }
    static const std::set<std::string, std::less<>> kModes{"disable", "allow",     "prefer",
                                                           "require", "verify-ca", "verify-full"};
    if (name == "sslmode" && !kModes.contains(value)) {
      diagnostics_.add("sslmode " + in_quotes(value) +
                       " is none of disable, allow, prefer, require, verify-ca and verify-full");
    }
  }

  Diagnostics diagnostics_;
  std::set<std::string> names_;  ///< of the parameters read so far
  std::string for_libpq_, schema_;
};

Result<StoreUrl> parse_sqlite(std::string_view path) {
  if (path.empty()) return Error::invalid("the file after sqlite: is missing (write sqlite:/PATH)");
  if (path.starts_with("//")) {
    return Error::invalid(
        "the file must follow sqlite: directly (write sqlite:/PATH, or sqlite:PATH, relative to "
        "the directory in which the program runs)");
  }
  if (path == ":memory:")
    return Error::invalid("jobs in memory would be lost at a restart; name a file");
  if (std::ranges::any_of(path, is_control)) {
    return Error::invalid("the file's name has control characters");
  }
  if (path.find('?') != std::string_view::npos) {
    return Error::invalid("sqlite: accepts no parameters after '?'");
  }
  if (path.ends_with('/')) return Error::invalid("sqlite: names a directory; name a file in it");
  return StoreUrl{.path = std::string(path), .text = "sqlite:" + std::string(path)};
}

}  // namespace

Result<StoreUrl> StoreUrl::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view scheme =
      colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
  if (scheme == "sqlite") return parse_sqlite(text.substr(colon + 1));
  if (scheme == "postgresql" || scheme == "postgres") {
    const std::string_view rest = text.substr(colon + 1);
    if (!rest.starts_with("//")) {
      return Error::invalid("// is missing after " + std::string(scheme) + ": (" +
                            std::string(kExamples) + ")");
    }
    return PostgresUrlCheck().read(rest.substr(2));
  }
  // None of the text is shown, because unparsed text may include a password.
  const bool like_a_path = colon == std::string_view::npos && !text.empty();
  return Error::invalid((like_a_path ? "a store must be given as a URL; for a file "
                                     : "this is not the URL of a store; ") +
                        std::string(kExamples));
}

const std::string& StoreUrl::parameter(const std::string& name) const {
  static const std::string kNone;
  const auto found = parameters.find(name);
  return found == parameters.end() ? kNone : found->second;
}

}  // namespace harpe::training
