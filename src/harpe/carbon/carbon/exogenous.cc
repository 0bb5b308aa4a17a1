#include "harpe/carbon/carbon/exogenous.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {
namespace {

constexpr double kMostNumber = 1e12;

/// A column of the file being read, with sums over the rows of each interval.
struct Sums {
  std::string name;
  std::size_t column = 0;
  bool asked = false;   ///< requested by name
  bool numbers = true;  ///< true while all cells read are numbers
  std::vector<double> sum;
  std::vector<std::size_t> count;
};

std::optional<std::size_t> time_column(const CsvRow& heading) {
  for (std::size_t i = 0; i < heading.cells.size(); ++i) {
    const std::string name = lower(heading.cells[i].text);
    if (name.starts_with("date") || name.starts_with("time")) return i;
  }
  return std::nullopt;
}

class ExogenousTable {
 public:
  ExogenousTable(const std::vector<CsvRow>& rows, const ExogenousOptions& options, UtcTime start,
                 WholeSeconds step, std::size_t size, Diagnostics& diagnostics)
      : rows_(rows),
        options_(options),
        start_(start),
        step_(step),
        size_(size),
        diagnostics_(diagnostics) {}

  std::vector<ExogenousSeries::Column> read() {
    if (!find_columns()) return {};
    for (std::size_t r = 1; r < rows_.size(); ++r) read_row(rows_[r]);
    std::vector<ExogenousSeries::Column> columns;
    for (Sums& sums : columns_) {
      if (!sums.numbers) continue;
      ExogenousSeries::Column column{.name = sums.name, .values = std::move(sums.sum)};
      for (std::size_t i = 0; i < size_; ++i) {
        column.values[i] =
            sums.count[i] > 0 ? column.values[i] / static_cast<double>(sums.count[i]) : kNoValue;
      }
      columns.push_back(std::move(column));
    }
    if (columns.empty()) diagnostics_.add("it has no column of numbers besides the time");
    if (within_ == 0)
      diagnostics_.add("none of its times is within the time range of the intensities");
    return columns;
  }

 private:
  bool find_columns() {
    if (rows_.empty()) {
      diagnostics_.add("it has no line; expected a heading");
      return false;
    }
    const auto time = time_column(rows_[0]);
    if (!time) diagnostics_.add(rows_[0].line, 0, "the column of times is missing");
    time_ = time.value_or(0);
    for (std::size_t i = 0; i < rows_[0].cells.size(); ++i) {
      const std::string& name = rows_[0].cells[i].text;
      const bool asked = std::ranges::count(options_.columns, name) != 0;
      if (i == time_ || (!options_.columns.empty() && !asked)) continue;
      columns_.push_back({.name = name,
                          .column = i,
                          .asked = asked,
                          .sum = std::vector<double>(size_, 0),
                          .count = std::vector<std::size_t>(size_, 0)});
      if (columns_.size() <= 4 * kMostExogenousColumns) continue;
      diagnostics_.add(rows_[0].line, 0, "it has too many columns; choose some");
      return false;
    }
    for (const std::string& name : options_.columns) {
      if (std::ranges::find(columns_, name, &Sums::name) == columns_.end()) {
        diagnostics_.add(rows_[0].line, 0, "column " + in_quotes(name) + " does not exist");
      }
    }
    return diagnostics_.empty();
  }

  void read_row(const CsvRow& row) {
    if (!has_cells_of(rows_[0], row, diagnostics_)) return;
    const auto time = parse_utc(row.cells[time_].text);
    if (!time) {
      diagnostics_.add(
          row.line, row.cells[time_].column,
          "expected a time such as 2022-01-31T13:00Z, found " + in_quotes(row.cells[time_].text));
      return;
    }
    if (*time < start_) return;
    const auto at = static_cast<std::size_t>((*time - start_) / step_);
    if (at >= size_) return;
    ++within_;
    for (Sums& sums : columns_) {
      const CsvCell& cell = row.cells[sums.column];
      if (cell.text.empty() || !sums.numbers) continue;
      const auto number = parse_number(cell.text);
      if (number && *number >= -kMostNumber && *number <= kMostNumber) {
        sums.sum[at] += *number;
        ++sums.count[at];
        continue;
      }
      sums.numbers = false;
      if (sums.asked) {
        diagnostics_.add(row.line, cell.column, "expected a number, found " + in_quotes(cell.text));
      }
    }
  }

  const std::vector<CsvRow>& rows_;
  const ExogenousOptions& options_;
  UtcTime start_;
  WholeSeconds step_;
  std::size_t size_;
  Diagnostics& diagnostics_;
  std::vector<Sums> columns_;
  std::size_t time_ = 0, within_ = 0;
};

}  // namespace

Result<ExogenousSeries> parse_exogenous_csv(std::string_view text, const std::string& file,
                                            const ExogenousOptions& options, UtcTime start,
                                            WholeSeconds step, std::size_t size) {
  if (options.known_ahead.count() < 0 || options.known_ahead > whole_hours(96)) {
    return Error::invalid("exogenous values must be known 0 to 96 hours ahead");
  }
  Diagnostics diagnostics(file);
  const std::vector<CsvRow> rows = split_csv(text, diagnostics);
  ExogenousTable table(rows, options, start, step, size, diagnostics);
  ExogenousSeries series{.columns = table.read(),
                         .known_ahead = static_cast<std::size_t>(options.known_ahead / step)};
  std::erase_if(series.columns, [](const ExogenousSeries::Column& column) {
    return std::ranges::all_of(column.values, [](double value) { return std::isnan(value); });
  });
  if (series.columns.size() > kMostExogenousColumns) {
    diagnostics.add("it has " + std::to_string(series.columns.size()) +
                    " columns of numbers; choose at most " + std::to_string(kMostExogenousColumns) +
                    " of them");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return series;
}

}  // namespace harpe::carbon
