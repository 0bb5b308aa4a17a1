#include "harpe/zeus/power_limit/recorded_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/possible_energy.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

/// Where the columns stand.
struct RunColumns {
  std::size_t window = 0, time = 0, count = 0;
  std::vector<std::size_t> energy;
};

std::optional<RunColumns> find_columns(const CsvRow& heading, Diagnostics& diagnostics) {
  std::optional<std::size_t> window, time;
  RunColumns columns{.count = heading.cells.size(), .energy = {}};
  for (std::size_t i = 0; i < heading.cells.size(); ++i) {
    const std::string& name = heading.cells[i].text;
    if (name == "window_name") window = i;
    if (name == "elapsed_time") time = i;
    if (name.starts_with("gpu") && name.ends_with("_energy")) columns.energy.push_back(i);
  }
  if (!window || !time || columns.energy.empty()) {
    diagnostics.add(heading.line, 1,
                    "expected the columns window_name, elapsed_time and gpu0_energy");
    return std::nullopt;
  }
  columns.window = *window;
  columns.time = *time;
  return columns;
}

/// The watts at the end of a window's name ("..._250", also "..._250W").
std::optional<double> limit_of(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  std::string_view digits = name.substr(underscore + 1);
  if (digits.ends_with('W')) digits.remove_suffix(1);
  return parse_number(digits);
}

double positive(const CsvRow& row, std::size_t column, Diagnostics& diagnostics) {
  const CsvCell& cell = row.cells[column];
  const auto value = parse_number(cell.text);
  if (value && *value > 0) return *value;
  diagnostics.add(row.line, cell.column,
                  "expected a number above 0, found " + in_quotes(cell.text));
  return 1;
}

}  // namespace

Result<RecordedRun> parse_recorded_run(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  const std::vector<CsvRow> rows = split_csv(text, diagnostics);
  if (rows.empty()) diagnostics.add("the run is empty");
  const std::optional<RunColumns> columns =
      rows.empty() ? std::nullopt : find_columns(rows.front(), diagnostics);
  if (!columns) return Error::invalid(std::move(diagnostics));
  RecordedRun run{.knob = {}, .measurements = {}, .gpus = static_cast<int>(columns->energy.size())};
  std::vector<double> limits;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    if (row.cells.size() != columns->count) {
      diagnostics.add(row.line, 1,
                      "expected " + std::to_string(columns->count) + " cells, found " +
                          std::to_string(row.cells.size()));
      continue;
    }
    const std::optional<double> limit = limit_of(row.cells[columns->window].text);
    if (!limit) continue;
    if (*limit <= 0 || (!limits.empty() && *limit >= limits.back())) {
      diagnostics.add(row.line, row.cells[columns->window].column,
                      "power limits must descend and be above 0, found " + shortest(*limit) +
                          (limits.empty() ? "" : " after " + shortest(limits.back())));
      continue;
    }
    Measurement one{
        .setting = *limit, .time = {positive(row, columns->time, diagnostics)}, .energy = {}};
    for (const std::size_t column : columns->energy) {
      const Joules energy{positive(row, column, diagnostics)};
      const std::string impossible =
          why_impossible(energy, Joules{0}, one.time, Watts{*limit * kMostOverLimit});
      if (!impossible.empty()) diagnostics.add(row.line, row.cells[column].column, impossible);
      one.energy += energy;
    }
    limits.push_back(*limit);
    run.measurements.push_back(one);
  }
  if (limits.empty() && diagnostics.empty()) {
    diagnostics.add("the run has no window whose name ends in _ and a power limit in W");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  run.knob = HARPE_TRY(Knob::make(KnobKind::kPowerLimit, std::move(limits)));
  return run;
}

}  // namespace harpe
