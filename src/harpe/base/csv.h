#pragma once
/// \file
/// Comma-separated tables, with the position of every cell for error messages.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// One cell: its trimmed text (quotes removed) and the column (from 1, in bytes) where it starts in
/// its line.
struct CsvCell {
  std::string text;
  int column = 1;
};

/// One line that is neither empty nor a `#` comment; `line` counts from 1 in the file.
struct CsvRow {
  int line = 0;
  std::vector<CsvCell> cells;
};

/// Splits `text` into rows. Accepts LF, CRLF, a UTF-8 byte order mark, double-quoted cells with
/// `""` for a quote. With `keep_empty_lines`, an empty line gives a row without cells (schedules
/// count them). Diagnostics: a quote that does not close on its line, characters after a closing
/// quote, a NUL byte (nothing after it is read).
std::vector<CsvRow> split_csv(std::string_view text, Diagnostics& diagnostics,
                              bool keep_empty_lines = false);

}  // namespace harpe
