#include "harpe/base/json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "harpe/base/text.h"

namespace harpe {
namespace {

/// The position of the parser in the text.
struct Reading {
  const char* next = nullptr;        ///< the first character not yet read
  const char* line_start = nullptr;  ///< of the line of the last character read
  int line = 1;
};

/// Input iterator over the text that reports to `Reading`; the parser copies its iterators, so the
/// position lives outside.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Reading* reading) : at_(at), reading_(reading) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (at_ != reading_->line_start && at_[-1] == '\n') {
      reading_->line_start = at_;
      ++reading_->line;
    }
    reading_->next = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  Reading* reading_;
};

/// Returns nlohmann's message without its prefix, position and state, in printable characters.
std::string readable(std::string_view message) {
  if (const auto column = message.find(", column "); column != std::string_view::npos) {
    if (const auto colon = message.find(": ", column); colon != std::string_view::npos) {
      message.remove_prefix(colon + 2);
    }
  } else if (const auto bracket = message.find("] "); bracket != std::string_view::npos) {
    message.remove_prefix(bracket + 2);
  }
  if (const auto dash = message.find(" - "); dash != std::string_view::npos) {
    message.remove_prefix(dash + 3);
  }
  constexpr std::string_view kLiteral = "invalid literal; last read: ", kLast = "; last read: ";
  std::string text;
  if (message.starts_with(kLiteral)) {
    text = "expected a value, at " + std::string(message.substr(kLiteral.size()));
  } else if (const auto last = message.find(kLast); last != std::string_view::npos) {
    text = std::string(message.substr(0, last)) + ", at " +
           std::string(message.substr(last + kLast.size()));
  } else {
    text = message;
  }
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return "not valid JSON: " + text;
}

/// Builds the values from the parser's events. A `false` from an event ends the parse.
class Builder {
 public:
  Builder(const Reading& reading, Diagnostics& diagnostics)
      : reading_(reading), diagnostics_(diagnostics) {}

  JsonValue take() { return std::move(root_); }

  bool null() { return add(4), true; }
  bool boolean(bool value) {
    JsonValue& added = add(value ? 4 : 5);
    added.type = JsonValue::Type::kBool;
    added.boolean = value;
    return true;
  }
  bool number_integer(std::int64_t value) {
    JsonValue& added = add_number(static_cast<double>(value));
    added.is_integer = true;
    added.integer = value;
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<std::int64_t>(value));
    }
    return add_number(static_cast<double>(value)), true;
  }
  bool number_float(double value, const std::string&) { return add_number(value), true; }
  bool string(std::string& value) {
    JsonValue& added = add(string_length());
    added.type = JsonValue::Type::kString;
    added.string = std::move(value);
    return true;
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // never in text
  bool start_object(std::size_t) { return open(JsonValue::Type::kObject); }
  bool start_array(std::size_t) { return open(JsonValue::Type::kArray); }
  bool end_object() { return open_.pop_back(), true; }
  bool end_array() { return open_.pop_back(), true; }
  bool key(std::string& name) {
    Open& object = open_.back();
    if (!object.keys.insert(name).second) {
      diagnostics_.add(reading_.line, last_column() - string_length() + 1,
                       "key " + in_quotes(name) + " appears twice in one object");
      return false;
    }
    object.value->members.emplace_back(std::move(name), JsonValue{});
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    diagnostics_.add(reading_.line, std::max(1, last_column()), readable(error.what()));
    return false;
  }

 private:
  static constexpr std::size_t kDeepest = 64;
  /// An array or object whose end has not been read. Only the innermost one grows, so the pointers
  /// to those around it stay valid.
  struct Open {
    JsonValue* value;
    std::unordered_set<std::string> keys;
  };

  /// Column of the last character read.
  int last_column() const { return static_cast<int>(reading_.next - reading_.line_start); }

  /// Returns the length, in the text, of the string whose closing quote was just read. Within it
  /// every quote has an odd number of backslashes before it.
  int string_length() const {
    const char* const last = reading_.next - 1;
    const char* first = last;
    for (;;) {
      --first;
      if (*first != '"') continue;
      const char* before = first;
      while (before != reading_.line_start && before[-1] == '\\') --before;
      if ((first - before) % 2 == 0) return static_cast<int>(last - first) + 1;
    }
  }

  /// Adds a value to the innermost open container, for a token of `length` that was just read.
  JsonValue& add(int length) {
    JsonValue* value = &root_;
    if (!open_.empty()) {
      JsonValue& container = *open_.back().value;
      value = container.type == JsonValue::Type::kArray ? &container.items.emplace_back()
                                                        : &container.members.back().second;
    }
    value->line = reading_.line;
    value->column = last_column() - length + 1;
    return *value;
  }

  JsonValue& add_number(double number) {
    // To find the end of a number, the parser reads one character past it, unless the text ends.
    const char* end = reading_.next;
    if (std::isdigit(static_cast<unsigned char>(end[-1])) == 0) --end;
    const char* first = end;
    while (first != reading_.line_start &&
           std::string_view("0123456789+-.eE").find(first[-1]) != std::string_view::npos) {
      --first;
    }
    JsonValue& added = add(static_cast<int>(reading_.next - first));
    added.type = JsonValue::Type::kNumber;
    added.number = number;
    return added;
  }

  bool open(JsonValue::Type type) {
    JsonValue& added = add(1);
    added.type = type;
    open_.push_back({&added, {}});
    if (open_.size() <= kDeepest) return true;
    diagnostics_.add(added.line, added.column,
                     "nested more than " + std::to_string(kDeepest) + " levels deep");
    return false;
  }

  const Reading& reading_;
  Diagnostics& diagnostics_;
  JsonValue root_;
  std::vector<Open> open_;
};

}  // namespace

JsonValue::JsonValue() = default;
JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<JsonValue> parse_json(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  text = without_byte_order_mark(text);
  // nlohmann's lexer takes a NUL byte for the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const std::string_view before = text.substr(0, nul);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    diagnostics.add(static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
                    static_cast<int>(nul - line_start) + 1, "NUL byte: this is not a JSON text");
    return Error::invalid(std::move(diagnostics));
  }
  // It also accepts a second byte order mark.
  if (text != without_byte_order_mark(text)) {
    diagnostics.add(1, 1, "expected a JSON value, but there is a second byte order mark");
    return Error::invalid(std::move(diagnostics));
  }
  if (trim(text).empty()) {
    diagnostics.add(1, 1, "expected a JSON value, but the text is empty");
    return Error::invalid(std::move(diagnostics));
  }

  const char* const begin = text.data();
  Reading reading{begin, begin, 1};
  Builder builder(reading, diagnostics);
  const bool parsed = nlohmann::json::sax_parse(
      CountingIterator(begin, &reading), CountingIterator(begin + text.size(), &reading), &builder);
  if (!parsed) return Error::invalid(std::move(diagnostics));
  return builder.take();
}

}  // namespace harpe
