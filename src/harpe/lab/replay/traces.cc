#include "harpe/lab/replay/traces.h"

#include <array>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/text.h"

namespace harpe::lab {
namespace {

constexpr std::array kTrainColumns{"dataset",    "network",       "optimizer",
                                   "batch_size", "target_metric", "target_epoch"};
constexpr std::array kPowerColumns{"dataset",     "network",        "optimizer",    "batch_size",
                                   "power_limit", "time_per_epoch", "average_power"};

/// Returns the key in the first columns, which both files have.
TraceKey key_of(CsvTable& table) {
  return {table.text(0), table.text(1), table.text(2), table.count(3)};
}

}  // namespace

Result<std::vector<TrainRow>> parse_train_rows(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  std::vector<TrainRow> rows;
  CsvTable table(text, kTrainColumns, diagnostics);
  table.each([&] {
    TrainRow row;
    row.key = key_of(table);
    row.target_metric = table.number(4, -CsvTable::kMostNumber);
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
  CsvTable table(text, kPowerColumns, diagnostics);
  table.each([&] {
    PowerRow row;
    row.key = key_of(table);
    row.power_limit = table.count(4);
    // A measurement has a time and a power above 0.
    row.epoch_time.value = table.number(5, 1e-9);
    row.average_power.value = table.number(6, 1e-9);
    rows.push_back(std::move(row));
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return rows;
}

}  // namespace harpe::lab
