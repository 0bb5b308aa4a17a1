#include "harpe/base/csv.h"

#include <algorithm>

#include "harpe/base/text.h"

namespace harpe {
namespace {

/// The cells of one line.
class LineSplitter {
 public:
  LineSplitter(std::string_view text, int line, Diagnostics& diagnostics)
      : text_(text), line_(line), diagnostics_(diagnostics) {}

  CsvRow split() {
    CsvRow row{line_, {}};
    for (;;) {
      row.cells.push_back(next_cell());
      if (at_ == text_.size()) return row;
      ++at_;  // the comma
    }
  }

 private:
  CsvCell next_cell() {
    const std::size_t cell_start = at_;
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return quoted_cell();
    const std::size_t end = std::min(text_.find(',', at_), text_.size());
    const std::string_view text = trim(text_.substr(at_, end - at_));
    const std::size_t start = text.empty() ? cell_start : at_;
    at_ = end;
    return {std::string(text), column(start)};
  }

  CsvCell quoted_cell() {
    CsvCell cell{{}, column(at_)};
    for (;;) {
      const std::size_t quote = text_.find('"', at_ + 1);
      if (quote == std::string_view::npos) {
        diagnostics_.add(line_, cell.column, "this quote does not close on its line");
        at_ = text_.size();
        return cell;
      }
      cell.text += text_.substr(at_ + 1, quote - at_ - 1);
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      cell.text += '"';
    }
    const std::size_t end = std::min(text_.find(',', at_), text_.size());
    const std::string_view rest = text_.substr(at_, end - at_);
    if (!trim(rest).empty()) {
      const std::size_t junk = at_ + rest.find_first_not_of(" \t");
      diagnostics_.add(line_, column(junk), "expected a comma after the closing quote");
    }
    at_ = end;
    return cell;
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t'; }
  static int column(std::size_t offset) { return static_cast<int>(offset) + 1; }

  std::string_view text_;
  int line_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<CsvRow> split_csv(std::string_view text, Diagnostics& diagnostics,
                              bool keep_empty_lines) {
  text = without_byte_order_mark(text);

  std::vector<CsvRow> rows;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const std::size_t nul = content.find('\0'); nul != std::string_view::npos) {
      diagnostics.add(line, static_cast<int>(nul) + 1, "NUL byte: this is not a text file");
      return rows;
    }
    if (content.ends_with('\r')) content.remove_suffix(1);
    const std::string_view trimmed = trim(content);
    if (trimmed.starts_with('#')) continue;
    if (!trimmed.empty()) {
      rows.push_back(LineSplitter(content, line, diagnostics).split());
    } else if (keep_empty_lines) {
      rows.push_back({line, {}});
    }
  }
  return rows;
}

}  // namespace harpe
