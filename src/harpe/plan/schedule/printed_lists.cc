#include <algorithm>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/schedule/action_rows.h"

namespace harpe::plan {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

class ListSplitter {
 public:
  ListSplitter(std::string_view text, Diagnostics& diagnostics)
      : text_(without_byte_order_mark(text)), diagnostics_(diagnostics) {}

  std::vector<ActionRow> split() {
    if (read_all() && !at_end()) fail("the end of the file after the lists");
    return std::move(rows_);
  }

 private:
  struct Cursor {
    std::size_t at = 0;
    int line = 1;
    std::size_t line_begin = 0;
  };

  bool read_all() {
    if (take('{')) {
      do {
        if (!read_key() || !read_list()) return false;
      } while (take(','));
      return take('}') || fail("',' or '}'");
    }
    const Cursor begin = cursor_;
    if (take('[') && next() == '[') {
      do {
        if (!read_list()) return false;
      } while (take(','));
      return take(']') || fail("',' or ']'");
    }
    cursor_ = begin;
    do {
      if (!read_list()) return false;
    } while (!at_end());
    return true;
  }

  bool read_key() {
    const std::string stage = std::to_string(rows_.size());
    skip_space();
    const std::string_view key = word();
    if (key != stage) return fail("the list of stage " + stage);
    cursor_.at += key.size();
    return take(':') || fail("':'");
  }

  bool read_list() {
    if (!take('[')) return fail("the list of stage " + std::to_string(rows_.size()));
    ActionRow row{.location = {here().line, here().column - 1}, .cells = {}};
    if (next() != ']') {
      do {
        if (!read_cell(row)) return false;
      } while (take(','));
    }
    if (!take(']')) return fail("',' or ']'");
    rows_.push_back(std::move(row));
    return true;
  }

  bool read_cell(ActionRow& row) {
    const char quote = next();
    const Location location = here();
    if (quote != '\'' && quote != '"') {
      const std::string_view text = word();
      if (text.empty()) return fail("an action such as 0F0");
      cursor_.at += text.size();
      row.cells.push_back({text == "None" ? "" : std::string(text), location});
      return true;
    }
    const std::size_t end = text_.find_first_of(std::string{quote, '\n'}, cursor_.at + 1);
    if (end == std::string_view::npos || text_[end] != quote) {
      diagnostics_.add(location.line, location.column, "this quote does not close on its line");
      return false;
    }
    const std::string_view text = text_.substr(cursor_.at + 1, end - cursor_.at - 1);
    row.cells.push_back({std::string(text), {location.line, location.column + 1}});
    cursor_.at = end + 1;
    return true;
  }

  /// Returns the text from the cursor to the end of a key or an action without quotes.
  std::string_view word() const {
    const std::size_t end = text_.find_first_of(" \t\r\n,:[]{}'\"", cursor_.at);
    return text_.substr(cursor_.at, end == std::string_view::npos ? end : end - cursor_.at);
  }

  void skip_space() {
    const std::size_t end = std::min(text_.find_first_not_of(kSpace, cursor_.at), text_.size());
    for (; cursor_.at < end; ++cursor_.at) {
      if (text_[cursor_.at] == '\n') cursor_ = {cursor_.at, cursor_.line + 1, cursor_.at + 1};
    }
  }
  bool at_end() {
    skip_space();
    return cursor_.at == text_.size();
  }
  char next() { return at_end() ? '\0' : text_[cursor_.at]; }
  bool take(char c) {
    if (at_end() || text_[cursor_.at] != c) return false;
    ++cursor_.at;
    return true;
  }
  Location here() const {
    return {cursor_.line, static_cast<int>(cursor_.at - cursor_.line_begin) + 1};
  }

  bool fail(const std::string& expected) {
    const bool ended = at_end();
    const std::string_view rest = text_.substr(cursor_.at);
    const std::string_view found = rest.substr(0, rest.find_first_of(",\r\n", 1));
    diagnostics_.add(
        here().line, here().column,
        "expected " + expected + ", got " + (ended ? "the end of the file" : in_quotes(found)));
    return false;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  Cursor cursor_;
  std::vector<ActionRow> rows_;
};

}  // namespace

bool is_printed_lists(std::string_view text) {
  const std::string_view content = trim(without_byte_order_mark(text));
  const std::size_t first = content.find_first_not_of(std::string(kSpace) + "[{");
  if (first == 0 || first == std::string_view::npos) return false;
  const std::string_view brackets = trim(content.substr(0, first));
  const bool is_digit = content[first] >= '0' && content[first] <= '9';
  if (brackets.find('{') != std::string_view::npos) return brackets == "{" && is_digit;
  return content[first] != ']';
}

std::vector<ActionRow> split_printed_lists(std::string_view text, Diagnostics& diagnostics) {
  return ListSplitter(text, diagnostics).split();
}

}  // namespace harpe::plan
