#pragma once
/// \file
/// A reader of CSV files that finds columns by name. Diagnostics have line and column.
///
///   constexpr std::array kColumns = {"time", "energy"};
///   CsvTable table(text, kColumns, diagnostics);
///   table.each([&] { points.push_back({table.number(0, 0), table.number(1, 0)}); });

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"

namespace harpe {

/// A table of named columns. `diagnostics` must outlive it.
class CsvTable {
 public:
  static constexpr double kMostNumber = 1e12;

  /// \param columns  names of the columns to read; the functions below take an index in this list.
  ///                 Other columns are ignored.
  CsvTable(std::string_view text, std::span<const char* const> columns, Diagnostics& diagnostics)
      : diagnostics_(diagnostics), rows_(split_csv(text, diagnostics)) {
    if (rows_.empty()) {
      diagnostics_.add(std::string("it has no lines; expected a heading with the column ") +
                       columns[0]);
      return;
    }
    for (const char* column : columns) {
      const auto& heading = rows_[0].cells;
      const auto at = std::ranges::find(heading, column, &CsvCell::text);
      if (std::ranges::count(heading, column, &CsvCell::text) > 1)
        diagnostics_.add(rows_[0].line, 0, std::string("the column ") + column + " is given twice");
      if (at == heading.end())
        diagnostics_.add(rows_[0].line, 0, std::string("there is no column ") + column);
      columns_.push_back(static_cast<std::size_t>(at - heading.begin()));
    }
  }

  /// Calls `read` for each row after the heading. During the call the functions below return cells
  /// of that row. Does nothing if there are diagnostics already.
  template <class Read>
  void each(Read read) {
    if (!diagnostics_.empty()) return;
    for (std::size_t row = 1; row < rows_.size(); ++row) {
      row_ = &rows_[row];
      if (has_cells_of(rows_[0], *row_, diagnostics_)) read();
    }
  }

  /// Returns the line number of the row, from 1.
  int line() const { return row_->line; }
  const std::string& text(std::size_t column) { return cell(column).text; }
  /// Returns the number in a cell. Adds a diagnostic and returns `lowest` if the cell is not a
  /// number from `lowest` to `kMostNumber`.
  double number(std::size_t column, double lowest) {
    const auto value = parse_number(text(column));
    if (value && *value >= lowest && *value <= kMostNumber) return *value;
    refuse(column, "expected a number from " + shortest(lowest));
    return lowest;
  }
  /// Returns the whole number in a cell. Adds a diagnostic and returns 1 if the cell is not a whole
  /// number from 1.
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
