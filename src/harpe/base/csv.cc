#include "harpe/base/csv.h"

#include <algorithm>

#include "harpe/base/content_lines.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

std::string_view name_of_separator(char separator) {
  if (separator == ';') return "';'";
  return separator == '\t' ? "a tab" : "a comma";
}

char separator_of(std::string_view line) {
  bool quoted = false, semicolon = false, tab = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') return ',';
    semicolon = semicolon || c == ';';
    tab = tab || c == '\t';
  }
  if (semicolon) return ';';
  return tab ? '\t' : ',';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_decimal_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns true for "0,05" or "-1,5e3".
bool has_decimal_comma(std::string_view cell) {
  const std::size_t comma = cell.find(',');
  if (comma == std::string_view::npos || comma == 0 || comma + 1 == cell.size()) return false;
  if (!is_decimal_digit(cell[comma - 1]) || !is_decimal_digit(cell[comma + 1])) return false;
  std::string number(cell);
  number[comma] = '.';
  return parse_number(number).has_value();
}

/// Splitter of one line into cells.
class LineSplitter {
 public:
  LineSplitter(std::string_view text, int line, char separator, Diagnostics& diagnostics)
      : text_(text), line_(line), separator_(separator), diagnostics_(diagnostics) {}

  CsvRow split() {
    CsvRow row{line_, {}};
    for (;;) {
      row.cells.push_back(next_cell());
      if (at_ == text_.size()) return row;
      ++at_;  // the separator
    }
  }

 private:
  CsvCell next_cell() {
    const std::size_t cell_start = at_;
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return quoted_cell();
    const std::size_t end = std::min(text_.find(separator_, at_), text_.size());
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
    const std::size_t end = std::min(text_.find(separator_, at_), text_.size());
    const std::string_view rest = text_.substr(at_, end - at_);
    if (!trim(rest).empty()) {
      const std::size_t junk = at_ + rest.find_first_not_of(" \t");
      diagnostics_.add(
          line_, column(junk),
          "expected " + std::string(name_of_separator(separator_)) + " after the closing quote");
    }
    at_ = end;
    return cell;
  }

  bool is_blank(char c) const { return c == ' ' || (c == '\t' && separator_ != '\t'); }
  static int column(std::size_t offset) { return static_cast<int>(offset) + 1; }

  std::string_view text_;
  int line_;
  char separator_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0;
};

/// Reports the first control character of a line. csv_cell() replaces it by a space, so that two
/// names that differ only in it would become equal.
void report_control(std::string_view content, int line, Diagnostics& diagnostics) {
  // A tab is white space: it separates columns or counts as a space.
  const auto* control =
      std::ranges::find_if(content, [](char c) { return is_control(c) && c != '\t'; });
  if (control == content.end()) return;
  diagnostics.add(line, static_cast<int>(control - content.begin()) + 1,
                  "expected text, found a control character (code " +
                      std::to_string(static_cast<unsigned char>(*control)) + ")");
}

}  // namespace

CsvForm csv_form(std::string_view text) {
  CsvForm form;
  bool is_first = true;
  each_content_line(text, [&](int, std::string_view line) {
    if (is_first) form.separator = separator_of(line);
    is_first = false;
    if (form.separator != ';') return false;
    while (!line.empty() && !form.decimal_comma) {
      const std::size_t end = std::min(line.find(';'), line.size());
      form.decimal_comma = has_decimal_comma(trim(line.substr(0, end)));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    return !form.decimal_comma;
  });
  return form;
}

std::string csv_form_remark(std::string_view text) {
  const CsvForm form = csv_form(text);
  if (form.separator == ',') return {};
  return "columns are separated by " + std::string(form.separator == ';' ? "';'" : "tabs") +
         (form.decimal_comma ? ", decimal commas are read as points" : "");
}

std::optional<OtherForm> other_form(std::string_view text) {
  std::optional<OtherForm> form;
  each_content_line(text, [&](int number, std::string_view line) {
    const std::string_view inside = line.substr(std::min(line.find_first_not_of('['), line.size()));
    const bool is_header = line.front() == '[' && !inside.empty() && is_letter(inside.front());
    if (is_header || line.find('=') < line.find(',')) {
      form = {number, "TOML"};
    } else if (line.front() == '{' || line.front() == '[') {
      form = {number, "JSON"};
    }
    return false;
  });
  return form;
}

std::vector<CsvRow> split_csv(std::string_view text, Diagnostics& diagnostics,
                              bool keep_empty_lines) {
  const CsvForm form = csv_form(text);
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
    while (content.ends_with('\r')) content.remove_suffix(1);
    const std::string_view trimmed = trim(content);
    if (trimmed.starts_with('#')) continue;
    if (!trimmed.empty()) {
      report_control(content, line, diagnostics);
      CsvRow& row =
          rows.emplace_back(LineSplitter(content, line, form.separator, diagnostics).split());
      for (CsvCell& cell : row.cells) {
        std::ranges::replace(cell.text, '\t', ' ');
        if (form.decimal_comma && has_decimal_comma(cell.text))
          cell.text[cell.text.find(',')] = '.';
      }
    } else if (keep_empty_lines) {
      rows.push_back({line, {}});
    }
  }
  return rows;
}

bool has_cells_of(const CsvRow& heading, const CsvRow& row, Diagnostics& diagnostics) {
  const std::size_t expected = heading.cells.size(), found = row.cells.size();
  if (found == expected) return true;
  diagnostics.add(
      row.line, 0,
      "expected " + std::to_string(expected) + " cells, found " + std::to_string(found));
  return false;
}

std::string csv_cell(const std::string& text) {
  std::string clean = text;
  std::ranges::replace_if(clean, is_control, ' ');
  const bool plain = clean.find_first_of(",\"#") == std::string::npos && trim(clean) == clean &&
                     clean == text && !clean.empty();
  if (plain) return clean;
  std::string quoted = "\"";
  for (const char c : clean) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace harpe
