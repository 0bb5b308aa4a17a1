#include "harpe/base/toml.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "harpe/base/content_lines.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

bool is_bare_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&text](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xe0 | code >> 12);
    } else {
      byte(0xf0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3f));
    }
    byte(0x80 | (code >> 6 & 0x3f));
  }
  byte(0x80 | (code & 0x3f));
}

/// Returns a decimal number of TOML in the form that `parse_number` reads; nullopt if it
/// is not one.
std::optional<std::string> decimal(std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '_') {
      text += word[i];
    } else if (i == 0 || i + 1 == word.size() || !is_digit(word[i - 1]) || !is_digit(word[i + 1])) {
      return std::nullopt;
    }
  }
  if (text.starts_with('+')) text.erase(0, 1);
  if (text.empty() || (!is_digit(text.front()) && text.front() != '-')) return std::nullopt;
  if (!parse_number(text)) return std::nullopt;
  return text;
}

using Type = JsonValue::Type;

/// The members of a table by key, and how the table was defined: some may not be opened again.
struct Index {
  struct Member {
    std::size_t at = 0;
    std::unique_ptr<Index> index;
  };
  std::map<std::string, Member, std::less<>> members;
  bool has_header = false;        ///< opened by [a.b]
  bool is_inline = false;         ///< opened by {...}
  std::unique_ptr<Index> newest;  ///< last table of a list opened by [[a.b]]; null if there is none
};

/// A table's value and index. They are separate because the value moves when its parent grows.
struct Table {
  JsonValue* value;
  Index* index;
};

/// Returns member `key` of a table; adds it if it is missing.
Table member(const Table& table, const std::string& key) {
  const auto [found, added] = table.index->members.try_emplace(key);
  Index::Member& one = found->second;
  if (added) {
    one = {table.value->members.size(), std::make_unique<Index>()};
    table.value->members.emplace_back(key, JsonValue());
  }
  return {&table.value->members[one.at].second, one.index.get()};
}

/// A reader of our own instead of a library: on malformed text that toml_fuzz finds within minutes
/// ("[=", "a=[}", U+3001 outside of strings, and in strings after the end of a line) toml++ 3.3,
/// the version of Debian 12, runs into assertions and undefined behaviour; it frees tables by
/// recursion as deep as a key has dots; it stops at the first error, and loses the order of keys.
class Reader {
 public:
  Reader(std::string_view text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  JsonValue read() {
    JsonValue root;
    root.type = Type::kObject;
    root.line = root.column = 1;
    // Receives the entries below a header with an error, which are read only for
    // their own diagnostics.
    JsonValue nowhere = root;
    Index index_of_root, index_of_nowhere;
    const Table whole{&root, &index_of_root};
    Table table = whole;
    for (skip_empty(); !at_end(); skip_empty()) {
      bool good = false;
      if (peek() == '[') {
        const std::optional<Table> named = read_header(whole);
        good = named.has_value();
        table = named.value_or(Table{&nowhere, &index_of_nowhere});
      } else {
        good = read_entry(table);
      }
      skip_blanks();
      skip_comment();
      if (good && !at_line_end()) error("expected the end of the line");
      skip_line();
    }
    return root;
  }

 private:
  static constexpr int kDeepest = 64;

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\n' : text_[at_]; }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  void next() {
    if (text_[at_++] == '\n') {
      ++line_;
      line_start_ = at_;
    }
  }
  bool at_line_end() const {
    return at_end() || peek() == '\n' || text_.substr(at_).starts_with("\r\n");
  }

  /// Reports an error at the current position. Always returns false, for callers to return.
  bool error(std::string message) { return fault_at(line_, column(), std::move(message)); }
  bool fault_at(int line, int column, std::string message) {
    diagnostics_.add(line, column, std::move(message));
    return false;
  }

  void skip_blanks() {
    while (!at_end() && (peek() == ' ' || peek() == '\t')) next();
  }
  void skip_line() {
    while (!at_end() && peek() != '\n') next();
  }
  void skip_comment() {
    if (peek() == '#') skip_line();
  }
  /// Skips white space, line ends and comments.
  void skip_empty() {
    while (!at_end()) {
      skip_blanks();
      skip_comment();
      if (at_end() || !at_line_end()) return;
      while (peek() != '\n') next();
      next();
    }
  }

  void start(JsonValue& value, Type type) {
    value.type = type;
    value.line = value.key_line = line_;
    value.column = value.key_column = column();
  }

  /// Reads `[a.b]` or `[[a.b]]`. Returns the table that it opens; nullopt after an error.
  std::optional<Table> read_header(const Table& root) {
    JsonValue here;
    start(here, Type::kObject);
    next();
    const bool is_list = peek() == '[';
    if (is_list) next();
    std::vector<std::string> keys;
    if (!read_keys(keys)) return std::nullopt;
    for (int i = is_list ? 2 : 1; i > 0; --i) {
      if (at_end() || peek() != ']') {
        error(is_list ? "expected ']]'" : "expected ']'");
        return std::nullopt;
      }
      next();
    }
    return open_table(root, keys, is_list, here);
  }

  std::optional<Table> open_table(Table table, const std::vector<std::string>& keys, bool is_list,
                                  const JsonValue& here) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool last = i + 1 == keys.size();
      table = member(table, keys[i]);
      JsonValue& value = *table.value;
      Index& index = *table.index;
      if (value.type == Type::kNull) {
        value = here;
        if (last && is_list) {
          value.type = Type::kArray;
          index.newest = std::make_unique<Index>();
        }
      }
      if (index.newest != nullptr) {
        if (last && !is_list) return refuse(here, keys[i], "is a list of tables: write [[...]]");
        if (last) {
          value.items.push_back(here);
          index.newest = std::make_unique<Index>();
        }
        table = {&value.items.back(), index.newest.get()};
      } else if (value.type != Type::kObject || (last && is_list) || index.is_inline) {
        return refuse(here, keys[i], "is already defined");
      }
    }
    if (!is_list && std::exchange(table.index->has_header, true)) {
      return refuse(here, keys.back(), "is defined twice");
    }
    return table;
  }

  std::optional<Table> refuse(const JsonValue& here, const std::string& key, const char* why) {
    fault_at(here.line, here.column, "the table " + in_quotes(key) + " " + why);
    return std::nullopt;
  }

  /// Reads `a.b = value` into the table.
  bool read_entry(const Table& table, int depth = 0) {  // NOLINT(misc-no-recursion)
    const int key_line = line_;
    const int key_column = column();
    std::vector<std::string> keys;
    if (!read_keys(keys)) return false;
    if (at_end() || peek() != '=') {
      return error("expected '=' after the key " + in_quotes(keys.back()));
    }
    next();
    skip_blanks();
    JsonValue value;
    auto index = std::make_unique<Index>();
    if (!read_value({&value, index.get()}, depth)) return false;
    value.key_line = key_line;
    value.key_column = key_column;
    Table into = table;
    for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
      into = member(into, keys[i]);
      if (into.value->type == Type::kNull) {
        into.value->type = Type::kObject;
        into.value->line = into.value->key_line = key_line;
        into.value->column = into.value->key_column = key_column;
      }
      if (into.value->type != Type::kObject) {
        return fault_at(key_line, key_column, in_quotes(keys[i]) + " is not a table");
      }
    }
    const auto [found, added] = into.index->members.try_emplace(keys.back());
    if (!added) return fault_at(key_line, key_column, in_quotes(keys.back()) + " is given twice");
    index->is_inline = value.type == Type::kObject;
    found->second = {into.value->members.size(), std::move(index)};
    into.value->members.emplace_back(keys.back(), std::move(value));
    return true;
  }

  /// Reads keys separated by dots, and the blanks around them.
  bool read_keys(std::vector<std::string>& keys) {
    while (true) {
      skip_blanks();
      if (!read_key(keys.emplace_back())) return false;
      if (keys.size() > kDeepest) return error("tables are nested more than 64 levels deep");
      skip_blanks();
      if (at_end() || peek() != '.') return true;
      next();
    }
  }

  bool read_key(std::string& key) {
    if (peek() == '"' || peek() == '\'') return read_text(key);
    while (!at_end() && is_bare_key(peek())) {
      key += peek();
      next();
    }
    return !key.empty() || error("expected a key, such as name = \"value\"");
  }

  bool read_value(const Table& into, int depth) {  // NOLINT(misc-no-recursion)
    if (depth > kDeepest) return error("lists are nested more than 64 levels deep");
    if (peek() == '[') return read_list(*into.value, depth);
    if (peek() == '{') return read_inline_table(into, depth);
    return read_scalar(*into.value);
  }

  bool read_list(JsonValue& value, int depth) {  // NOLINT(misc-no-recursion)
    start(value, Type::kArray);
    next();
    for (skip_empty(); peek() != ']' || at_end(); skip_empty()) {
      if (at_end()) return fault_at(value.line, value.column, "this list is not closed");
      Index index;
      if (!read_value({&value.items.emplace_back(), &index}, depth + 1)) return false;
      skip_empty();
      if (!at_end() && peek() == ',') {
        next();
      } else if (peek() != ']' || at_end()) {
        return error("expected ',' or ']' in the list");
      }
    }
    next();
    return true;
  }

  bool read_inline_table(const Table& table, int depth) {  // NOLINT(misc-no-recursion)
    start(*table.value, Type::kObject);
    next();
    skip_blanks();
    while (peek() != '}' || at_end()) {
      if (!read_entry(table, depth + 1)) return false;
      skip_blanks();
      if (at_end() || (peek() != ',' && peek() != '}')) {
        return error("expected ',' or '}' in the table");
      }
      if (peek() == '}') break;
      next();
      skip_blanks();
    }
    next();
    return true;
  }

  bool read_scalar(JsonValue& value) {
    start(value, Type::kString);
    if (peek() == '"' || peek() == '\'') return read_text(value.string);
    std::string word;
    while (!at_line_end() && std::string_view(" \t,]}#").find(peek()) == std::string_view::npos) {
      word += peek();
      next();
    }
    if (word == "true" || word == "false") {
      value.type = Type::kBool;
      value.boolean = word == "true";
      return true;
    }
    const std::optional<std::string> number = decimal(word);
    if (!number) {
      return fault_at(value.line, value.column,
                      word.empty() ? "expected a value"
                                   : "expected a number, true, false, or text in quotes, found " +
                                         in_quotes(word));
    }
    value.type = Type::kNumber;
    value.string = *number;
    value.number = *parse_number(*number);
    const auto integer = parse_integer(*number);
    value.is_integer = integer.has_value();
    value.integer = integer.value_or(0);
    return true;
  }

  bool read_text(std::string& text) {
    const char quote = peek();
    const int column_before = column();
    if (text_.substr(at_, 3) == std::string(3, quote)) {
      return error("text over several lines is not supported; use \\n");
    }
    next();
    while (!at_line_end() && peek() != quote) {
      if (peek() == '\\' && quote == '"') {
        if (!read_escape(text)) return false;
        continue;
      }
      if (is_control(peek()) && peek() != '\t') {
        return error("a control character; write it as \\u00XX");
      }
      text += peek();
      next();
    }
    if (at_line_end()) return fault_at(line_, column_before, "this quote is not closed");
    next();
    return true;
  }

  bool read_escape(std::string& text) {
    constexpr std::string_view kLetters = "btnfr\"\\";
    constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
    const int column_before = column();
    next();
    const char letter = at_line_end() ? ' ' : peek();
    const std::size_t simple = kLetters.find(letter);
    if (simple != std::string_view::npos) {
      text += kMeanings[simple];
      next();
      return true;
    }
    if (letter != 'u' && letter != 'U') return fault_at(line_, column_before, "unknown escape");
    next();
    std::uint32_t code = 0;
    for (int digits = letter == 'u' ? 4 : 8; digits > 0; --digits) {
      const std::size_t value =
          std::string_view("0123456789abcdef").find(lower(text_.substr(at_, 1)));
      if (at_line_end() || value == std::string_view::npos) {
        return fault_at(line_, column_before, "expected four digits after \\u, eight after \\U");
      }
      code = code << 4 | static_cast<std::uint32_t>(value);
      next();
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      return fault_at(line_, column_before, "this is not a valid character");
    }
    append_utf8(text, code);
    return true;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

// Returns the first line with content if it is neither a table header nor an entry; otherwise 0.
int line_of_another_form(std::string_view text) {
  int found = 0;
  each_content_line(text, [&](int number, std::string_view line) {
    if (!line.starts_with('[') && line.find('=') == std::string_view::npos) found = number;
    return false;
  });
  return found;
}

}  // namespace

JsonValue read_toml(std::string_view text, Diagnostics& diagnostics) {
  return Reader(without_byte_order_mark(text), diagnostics).read();
}

Result<JsonValue> parse_toml(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  if (const int line = line_of_another_form(text); line > 0) {
    diagnostics.add(line, 1, "this is not TOML: expected a table such as [name], or key = value");
    return Error::invalid(std::move(diagnostics));
  }
  JsonValue root = read_toml(text, diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return root;
}

}  // namespace harpe
