#include "harpe/replay/traces.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr double kMostNumber = 1e12;

/// Cells of a table by the names of its columns.
class Table {
 public:
  Table(std::string_view text, std::span<const char* const> columns, Diagnostics& diagnostics)
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
  TraceKey key() { return {text(0), text(1), text(2), count(3)}; }

 private:
  const CsvCell& cell(std::size_t column) { return row_->cells[columns_[column]]; }
  void refuse(std::size_t column, const std::string& expected) {
    diagnostics_.add(row_->line, cell(column).column,
                     expected + ", found " + in_quotes(text(column)));
  }

  Diagnostics& diagnostics_;
  std::vector<CsvRow> rows_;
  std::vector<std::size_t> columns_;
  const CsvRow* row_ = nullptr;
};

constexpr std::array kTrainColumns{"dataset",    "network",       "optimizer",
                                   "batch_size", "target_metric", "target_epoch"};
constexpr std::array kPowerColumns{"dataset",     "network",        "optimizer",    "batch_size",
                                   "power_limit", "time_per_epoch", "average_power"};

}  // namespace

Result<std::vector<TrainRow>> parse_train_rows(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  std::vector<TrainRow> rows;
  Table table(text, kTrainColumns, diagnostics);
  table.each([&] {
    TrainRow row;
    row.key = table.key();
    row.target_metric = table.number(4, -kMostNumber);
    const bool reached = !table.text(5).empty() && lower(table.text(5)) != "nan";
    if (reached) row.target_epoch = table.count(5);
    rows.push_back(std::move(row));
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return rows;
}

Result<std::vector<PowerRow>> parse_power_rows(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  std::vector<PowerRow> rows;
  Table table(text, kPowerColumns, diagnostics);
  table.each([&] {
    PowerRow row;
    row.key = table.key();
    row.power_limit = table.count(4);
    // What takes no time or power is no measurement.
    row.epoch_time.value = table.number(5, 1e-9);
    row.average_power.value = table.number(6, 1e-9);
    rows.push_back(std::move(row));
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return rows;
}

Result<Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu) {
  const std::filesystem::path train = directory / "summary_train.csv";
  const std::filesystem::path power = directory / ("summary_power_" + gpu + ".csv");
  Traces traces;
  const std::string train_text = HARPE_TRY(read_file(train));
  const std::string power_text = HARPE_TRY(read_file(power));
  traces.train = HARPE_TRY(parse_train_rows(train_text, train.string()));
  traces.power = HARPE_TRY(parse_power_rows(power_text, power.string()));
  return traces;
}

}  // namespace harpe
