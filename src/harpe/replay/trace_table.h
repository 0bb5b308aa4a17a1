#pragma once
/// \file
/// Tables of traces, read cell by cell by the names of their columns; what is wrong is named with
/// its line and column.

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"

namespace harpe {

/// Of one file; `diagnostics` must outlive it.
class TraceTable {
 public:
  static constexpr double kMostNumber = 1e12;

  /// \param columns  those that are read, by the indices that follow; others are left out
  TraceTable(std::string_view text, std::span<const char* const> columns, Diagnostics& diagnostics)
      : diagnostics_(diagnostics), rows_(split_csv(text, diagnostics)) {
    if (rows_.empty()) {
      diagnostics_.add(std::string("it has no line; expected a heading with the column ") +
                       columns[0]);
      return;
    }
    for (const char* column : columns) {
      const auto& heading = rows_[0].cells;
      const auto at = std::ranges::find(heading, column, &CsvCell::text);
      if (at == heading.end())
        diagnostics_.add(rows_[0].line, 0, std::string("there is no column ") + column);
      columns_.push_back(static_cast<std::size_t>(at - heading.begin()));
    }
  }

  /// Calls `read` for each row, whose cells it then has.
  template <class Read>
  void each(Read read) {
    if (!diagnostics_.empty()) return;
    for (std::size_t row = 1; row < rows_.size(); ++row) {
      row_ = &rows_[row];
      if (row_->cells.size() == rows_[0].cells.size()) {
        read();
      } else {
        diagnostics_.add(row_->line, 0,
                         "expected " + std::to_string(rows_[0].cells.size()) + " cells, found " +
                             std::to_string(row_->cells.size()));
      }
    }
  }

  const std::string& text(std::size_t column) { return cell(column).text; }
  double number(std::size_t column, double lowest) {
    const auto value = parse_number(text(column));
    if (value && *value >= lowest && *value <= kMostNumber) return *value;
    refuse(column, "expected a number from " + shortest(lowest));
    return lowest;
  }
  int count(std::size_t column) {
    const auto value = parse_number(text(column));  // the files have "37.0", too
    if (value && *value >= 1 && *value <= std::numeric_limits<int>::max() &&
        *value == static_cast<int>(*value)) {
      return static_cast<int>(*value);
    }
    refuse(column, "expected a whole number from 1");
    return 1;
  }
  void refuse(std::size_t column, const std::string& expected) {
    diagnostics_.add(row_->line, cell(column).column,
                     expected + ", found " + in_quotes(text(column)));
  }

 private:
  const CsvCell& cell(std::size_t column) { return row_->cells[columns_[column]]; }

  Diagnostics& diagnostics_;
  std::vector<CsvRow> rows_;
  std::vector<std::size_t> columns_;
  const CsvRow* row_ = nullptr;
};

}  // namespace harpe
