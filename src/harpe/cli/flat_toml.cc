#include "harpe/cli/flat_toml.h"

#include <cstdint>
#include <optional>

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

/// A number of TOML in decimal, without what `parse_number` does not know; nothing if it is none.
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

class Reader {
 public:
  Reader(std::string_view text, Faults& faults) : text_(text), faults_(faults) {}

  std::vector<TomlEntry> read() {
    std::vector<TomlEntry> entries;
    for (skip_empty(); !at_end(); skip_empty()) {
      TomlEntry entry;
      if (read_entry(entry)) {
        entries.push_back(std::move(entry));
      } else {
        skip_line();
      }
    }
    return entries;
  }

 private:
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

  /// Reports what was expected here; always false, to be returned.
  bool fault(std::string message) { return fault_at(line_, column(), std::move(message)); }
  bool fault_at(int line, int column, std::string message) {
    faults_.add(line, column, std::move(message));
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
  /// White space, line ends and comments.
  void skip_empty() {
    while (!at_end()) {
      skip_blanks();
      skip_comment();
      if (at_end() || !at_line_end()) return;
      while (peek() != '\n') next();
      next();
    }
  }

  bool read_entry(TomlEntry& entry) {
    entry.key_line = line_;
    entry.key_column = column();
    if (peek() == '[') return fault("a job file has no tables, only keys");
    if (!read_key(entry.key)) return false;
    skip_blanks();
    if (peek() == '.') return fault("a job file has no dotted keys");
    if (peek() != '=') return fault("expected '=' after the key " + in_quotes(entry.key));
    next();
    skip_blanks();
    entry.line = line_;
    entry.column = column();
    entry.is_list = peek() == '[';
    if (entry.is_list) {
      if (!read_list(entry)) return false;
    } else if (!read_scalar(entry.values.emplace_back())) {
      return false;
    }
    skip_blanks();
    skip_comment();
    return at_line_end() || fault("expected the end of the line after the value");
  }

  bool read_key(std::string& key) {
    if (peek() == '"' || peek() == '\'') return read_text(key);
    while (!at_end() && is_bare_key(peek())) {
      key += peek();
      next();
    }
    return !key.empty() || fault("expected a key, such as profile = \"profile.csv\"");
  }

  bool read_list(TomlEntry& entry) {
    next();
    for (skip_empty(); peek() != ']' || at_end(); skip_empty()) {
      if (at_end()) return fault_at(entry.line, entry.column, "this list is not closed");
      if (peek() == '[') {
        return fault_at(entry.line, entry.column,
                        entry.key + ": expected a number or text, or a list of them");
      }
      if (!read_scalar(entry.values.emplace_back())) return false;
      skip_empty();
      if (peek() == ',') {
        next();
      } else if (peek() != ']' || at_end()) {
        return fault("expected ',' or ']' in the list");
      }
    }
    next();
    return true;
  }

  bool read_scalar(TomlScalar& scalar) {
    if (peek() == '"' || peek() == '\'') return read_text(scalar.text);
    const int column_before = column();
    std::string word;
    while (!at_line_end() && std::string_view(" \t,]#").find(peek()) == std::string_view::npos) {
      word += peek();
      next();
    }
    if (word == "true" || word == "false") {
      scalar = {.type = TomlScalar::Type::kBoolean, .text = word};
      return true;
    }
    const std::optional<std::string> number = decimal(word);
    if (!number) {
      return fault_at(line_, column_before,
                      word.empty() ? "expected a value"
                                   : "expected a number, true, false, or text in quotes, found " +
                                         in_quotes(word));
    }
    scalar = {.type = TomlScalar::Type::kNumber, .text = *number};
    return true;
  }

  bool read_text(std::string& text) {
    const char quote = peek();
    const int column_before = column();
    if (text_.substr(at_, 3) == std::string(3, quote)) {
      return fault("a job file has no text over several lines");
    }
    next();
    while (!at_line_end() && peek() != quote) {
      if (peek() == '\\' && quote == '"') {
        if (!read_escape(text)) return false;
        continue;
      }
      const auto byte = static_cast<unsigned char>(peek());
      if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
        return fault("a control character; write it as \\u00XX");
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
      return fault_at(line_, column_before, "this is no character");
    }
    append_utf8(text, code);
    return true;
  }

  std::string_view text_;
  Faults& faults_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<TomlEntry> read_flat_toml(std::string_view text, Faults& faults) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return Reader(text, faults).read();
}

}  // namespace harpe
