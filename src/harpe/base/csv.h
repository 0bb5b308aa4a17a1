#pragma once
/// \file
/// CSV tables (comma, semicolon or tab), with the position of every cell for error messages.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// A cell: its trimmed text without quotes, and its start column in the line (from 1, in bytes).
struct CsvCell {
  std::string text;
  int column = 1;
};

/// A line that is neither empty nor a `#` comment; `line` counts from 1 in the file.
struct CsvRow {
  int line = 0;
  std::vector<CsvCell> cells;
};

/// The format of a file's cells and numbers.
struct CsvForm {
  char separator = ',';
  bool decimal_comma = false;  ///< only with `;`: numbers such as "0,05"
};

/// Returns the form of a table. The separator is a comma if the first line with content has one
/// outside of quotes, else `;`, else a tab.
CsvForm csv_form(std::string_view text);
/// Returns a remark for the user: "columns are separated by ';', decimal commas are read as
/// points"; empty if the separator is a comma.
std::string csv_form_remark(std::string_view text);

/// The format of a file that is not a table.
struct OtherForm {
  int line = 0;           ///< first line with content
  std::string_view name;  ///< "JSON" or "TOML"
};

/// Returns the format if the first line with content is JSON or TOML; nullopt if it is a table's.
std::optional<OtherForm> other_form(std::string_view text);

/// Splits the text into rows by the separator of its csv_form(); decimal commas become points.
/// Accepts LF, CRLF, a UTF-8 byte order mark, and double-quoted cells with `""` for a quote. If
/// `keep_empty_lines` is true, an empty line gives a row without cells (schedules count them).
/// Diagnostics: a quote that does not close on its line, characters after a closing quote, a
/// control character, a NUL byte (reading stops there). A tab inside a cell is read as a space.
std::vector<CsvRow> split_csv(std::string_view text, Diagnostics& diagnostics,
                              bool keep_empty_lines = false);

/// Returns true if the row has as many cells as the heading. Otherwise adds a diagnostic.
bool has_cells_of(const CsvRow& heading, const CsvRow& row, Diagnostics& diagnostics);

/// Returns the text as a CSV cell: in quotes if it is empty, contains a comma, a quote or '#',
/// begins or ends with white space, or had control characters (which become spaces, so that a row
/// is one line).
std::string csv_cell(const std::string& text);

}  // namespace harpe
