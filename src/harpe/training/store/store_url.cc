#include "harpe/training/store/store_url.h"

#include <algorithm>
#include <optional>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr std::string_view kExamples =
    "write sqlite:/var/lib/harpe/harpe.db or postgresql://user@host/database";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(char c) {
  return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

bool has_control_bytes(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string encoded(std::string_view text, std::string_view also_plain = "") {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (is_plain(c) || also_plain.find(c) != std::string_view::npos) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      (result += '%') += kHex[byte >> 4];
      result += kHex[byte & 15];
    }
  }
  return result;
}

/// Reads what stands after "postgresql://". Not by libpq's PQconninfoParse: it stops at the first
/// error and shows the password in it, and takes a database "a/b", "h:" for a port, an empty user
/// or password, `[1.2.3.4]`, '#' and a parameter twice. To look for these before and after takes
/// more code than to read the URL. The tests hold what is read here against what libpq reads.
class PostgresReader {
 public:
  Result<StoreUrl> read(std::string_view rest) {
    url_.kind = StoreUrl::Kind::kPostgresql;
    if (rest.find('#') != std::string_view::npos) diagnostics_.add("'#' must be written as %23");
    const std::size_t question = rest.find('?');
    const std::string_view before = rest.substr(0, question);
    const std::size_t slash = before.find('/');
    std::string_view authority = before.substr(0, slash);
    if (rest.find('@', authority.size()) != std::string_view::npos) {
      // Likely of a password; what would be read as host and port here must not be shown.
      return Error::invalid(
          "'@' stands after the first '/' or '?': in a password write %2F for '/' and %3F for '?', "
          "and elsewhere %40 for '@'");
    }
    // The last one: an '@' in a password is a common slip, and the password must not become a host.
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
      read_user(authority.substr(0, at));
      authority.remove_prefix(at + 1);
    }
    if (!authority.empty()) read_hosts(authority);
    if (slash != std::string_view::npos) read_database(before.substr(slash + 1));
    if (question != std::string_view::npos) read_parameters(rest.substr(question + 1));
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(url_);
  }

 private:
  /// Undoes %XX. `what` names the part in diagnostics; its content is shown unless it is secret.
  std::string decoded(std::string_view text, const std::string& what, bool secret = false) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        result += text[i];
        continue;
      }
      const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
      if (!low) {
        diagnostics_.add(what + (secret ? "" : " " + in_quotes(text)) +
                         " has a '%' without two hexadecimal digits after it (write %25 for '%')");
        return result;
      }
      result += static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    if (has_control_bytes(result)) {
      diagnostics_.add(what + (secret ? "" : " " + in_quotes(result)) + " has bytes below a space");
    }
    return result;
  }

  void read_user(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view password =
        colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    if (text.find('@') != std::string_view::npos || password.find(':') != std::string_view::npos) {
      diagnostics_.add(
          "what stands before the host has '@' or ':' more than once: in a user's name and in a "
          "password write %40 for '@' and %3A for ':'");
      return;
    }
    url_.user = decoded(text.substr(0, colon), "the user");
    url_.password = decoded(password, "the password", true);
    if (url_.user.empty()) diagnostics_.add("there is no user before '@'");
    if (colon != std::string_view::npos && password.empty()) {
      diagnostics_.add(
          "the password after ':' is empty: leave the ':' out to take it from ~/.pgpass");
    }
  }

  void read_hosts(std::string_view text) {
    while (true) {
      const std::size_t comma = text.find(',');
      read_host(text.substr(0, comma));
      if (comma == std::string_view::npos) return;
      text.remove_prefix(comma + 1);
    }
  }

  void read_host(std::string_view text) {
    StoreUrl::Host host;
    std::string_view port;
    bool has_port = false;
    if (text.starts_with('[')) {
      const std::size_t end = text.find(']');
      host.name = text.substr(1, end == std::string_view::npos ? end : end - 1);
      const std::string_view after =
          end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      const bool right = std::ranges::all_of(
          host.name, [](char c) { return hex_digit(c) || c == ':' || c == '.'; });
      has_port = after.starts_with(':');
      if (has_port) port = after.substr(1);
      if (end == std::string_view::npos || !right || host.name.find(':') == std::string::npos ||
          (!after.empty() && !has_port)) {
        diagnostics_.add("the host " + in_quotes(text) + " is not an IPv6 address in brackets");
        return;
      }
    } else {
      const std::size_t colon = text.find(':');
      has_port = colon != std::string_view::npos;
      if (has_port) port = text.substr(colon + 1);
      host.name = decoded(text.substr(0, colon), "the host");
      const bool directory = host.name.starts_with('/');
      const bool right = std::ranges::all_of(
          host.name, [&](char c) { return directory ? c != ',' : is_plain(c) && c != '~'; });
      if (host.name.empty()) {
        diagnostics_.add("there is a host without a name");
      } else if (!right) {
        diagnostics_.add("the host " + in_quotes(host.name) + " has a character that no host has");
      }
    }
    if (has_port) {
      const auto number = parse_integer(port);
      const bool digits = std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
      if (!number || !digits || *number < 1 || *number > 65535) {
        diagnostics_.add("the port " + in_quotes(port) + " is not a number from 1 to 65535");
        return;
      }
      host.port = static_cast<int>(*number);
    }
    url_.hosts.push_back(std::move(host));
  }

  void read_database(std::string_view text) {
    if (text.find('/') != std::string_view::npos) {
      diagnostics_.add("the database " + in_quotes(text) + " has a '/' (write %2F)");
      return;
    }
    url_.database = decoded(text, "the database");
  }

  void read_parameters(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('&'), text.size());
      read_parameter(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void read_parameter(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string name = decoded(text.substr(0, equals), "the parameter");
    if (name == "password" || name == "user") {
      diagnostics_.add(name +
                       " is no parameter: give it before '@', a password rather in ~/.pgpass");
      return;
    }
    const auto& known = parameter_names();
    if (std::ranges::find(known, name) == known.end()) {
      const auto near = nearest(name, known);
      diagnostics_.add("no parameter is called " + in_quotes(name) +
                       (near ? "; did you mean " + *near + "?" : ""));
      return;
    }
    if (equals == std::string_view::npos) {
      diagnostics_.add("the parameter " + name + " has no value (write " + name + "=VALUE)");
      return;
    }
    std::string value = decoded(text.substr(equals + 1), "the parameter " + name);
    if (std::ranges::any_of(url_.parameters, [&](const auto& had) { return had.first == name; })) {
      diagnostics_.add("the parameter " + name + " is given twice");
      return;
    }
    check_value(name, value);
    url_.parameters.emplace_back(name, std::move(value));
  }

  void check_value(const std::string& name, const std::string& value) {
    if (value.empty()) diagnostics_.add("the parameter " + name + " is empty");
    if (name == "host" && !url_.hosts.empty()) {
      diagnostics_.add("there is a host before the database and another as a parameter");
    }
    if (name == "host" && !value.starts_with('/')) {
      diagnostics_.add(
          "the parameter host is for the directory of a Unix socket, which begins with '/'");
    }
    if (name == "host" && value.find(',') != std::string::npos) {
      diagnostics_.add("the parameter host is one directory, without ','");
    }
    if (name == "schema" && (value.size() > 63 || !std::ranges::all_of(value, [](char c) {
                               return is_letter_or_digit(c) || c == '_';
                             }))) {
      diagnostics_.add("the schema " + in_quotes(value) +
                       " is not made of letters, digits and '_'");
    }
    if (name == "connect_timeout") {
      const auto seconds = parse_integer(value);
      if (!seconds || *seconds < 1 || *seconds > 3600) {
        diagnostics_.add("connect_timeout " + in_quotes(value) +
                         " is not a number of seconds, 1 to 3600");
      }
    }
    static const std::vector<std::string> kModes{"disable", "allow",     "prefer",
                                                 "require", "verify-ca", "verify-full"};
    if (name == "sslmode" && std::ranges::find(kModes, value) == kModes.end()) {
      diagnostics_.add("sslmode " + in_quotes(value) +
                       " is none of disable, allow, prefer, require, verify-ca and verify-full");
    }
  }

  StoreUrl url_;
  Diagnostics diagnostics_;
};

Result<StoreUrl> parse_sqlite(std::string_view path) {
  if (path.empty()) return Error::invalid("there is no file after sqlite: (write sqlite:/PATH)");
  if (path.starts_with("//")) {
    return Error::invalid(
        "a file stands right after sqlite: (write sqlite:/PATH, or sqlite:PATH from the directory "
        "the program runs in)");
  }
  if (path == ":memory:")
    return Error::invalid("jobs kept in memory would not survive; name a file");
  if (has_control_bytes(path)) return Error::invalid("the file's name has bytes below a space");
  if (path.find('?') != std::string_view::npos) {
    return Error::invalid("sqlite: takes no parameters after '?'");
  }
  if (path.ends_with('/')) return Error::invalid("sqlite: names a directory; name a file in it");
  StoreUrl url;
  url.path = path;
  return url;
}

}  // namespace

const std::vector<std::string>& parameter_names() {
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
  return kNames;
}

Result<StoreUrl> StoreUrl::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view scheme =
      colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
  if (scheme == "sqlite") return parse_sqlite(text.substr(colon + 1));
  if (scheme == "postgresql" || scheme == "postgres") {
    const std::string_view rest = text.substr(colon + 1);
    if (!rest.starts_with("//")) {
      return Error::invalid("there is no // after " + std::string(scheme) + ": (" +
                            std::string(kExamples) + ")");
    }
    return PostgresReader().read(rest.substr(2));
  }
  // Nothing of the text is shown: what is not understood may hold a password.
  const bool like_a_path = colon == std::string_view::npos && !text.empty();
  return Error::invalid((like_a_path ? "a store is named by a URL; for a file "
                                     : "this is not the URL of a store; ") +
                        std::string(kExamples));
}

namespace {

std::string url_text(const StoreUrl& url, const std::string& password) {
  if (url.kind == StoreUrl::Kind::kSqlite) return "sqlite:" + url.path;
  std::string text = "postgresql://";
  if (!url.user.empty()) {
    text += encoded(url.user);
    if (!password.empty()) text += ":" + password;
    text += '@';
  }
  for (std::size_t i = 0; i < url.hosts.size(); ++i) {
    const StoreUrl::Host& host = url.hosts[i];
    const bool six = host.name.find(':') != std::string::npos && !host.name.starts_with('/');
    if (i > 0) text += ',';
    text += six ? "[" + host.name + "]" : encoded(host.name);
    if (host.port != 0) text += ":" + std::to_string(host.port);
  }
  if (!url.database.empty()) text += "/" + encoded(url.database);
  for (std::size_t i = 0; i < url.parameters.size(); ++i) {
    text += i == 0 ? "?" : "&";
    text += url.parameters[i].first + "=" + encoded(url.parameters[i].second, "/:");
  }
  return text;
}

}  // namespace

std::string StoreUrl::text() const {
  return url_text(*this, password.empty() ? "" : "***");
}

std::string StoreUrl::text_with_password() const {
  return url_text(*this, encoded(password));
}

}  // namespace harpe
