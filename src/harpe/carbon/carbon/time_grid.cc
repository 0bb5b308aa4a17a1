#include "harpe/carbon/carbon/time_grid.h"

#include <map>
#include <string>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe {
namespace {

/// Whether each time is after the one before.
bool ascend(std::span<const TimedRow> rows, Diagnostics& diagnostics) {
  bool fine = true;
  std::map<UtcTime, int> lines;  // where each time stands first
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [first, is_new] = lines.try_emplace(rows[r].time, rows[r].line);
    if (r == 0 || rows[r].time > rows[r - 1].time) continue;
    fine = false;
    const TimedRow& before = rows[r - 1];
    diagnostics.add(rows[r].line, rows[r].column,
                    is_new ? "expected a time after that of line " + std::to_string(before.line) +
                                 ", " + utc_text(before.time)
                           : "the same time as in line " + std::to_string(first->second) +
                                 "; local time has an hour twice: give UTC");
  }
  return fine;
}

/// The most frequent distance of neighbours, the shorter of two that are as frequent.
WholeSeconds usual_distance(std::span<const TimedRow> rows) {
  std::map<WholeSeconds, std::size_t> counts;
  for (std::size_t r = 1; r < rows.size(); ++r) ++counts[rows[r].time - rows[r - 1].time];
  WholeSeconds usual{0};
  std::size_t most = 0;
  for (const auto& [distance, count] : counts) {
    if (count > most) usual = distance;
    most = std::max(most, count);
  }
  return usual;
}

}  // namespace

std::optional<TimeGrid> find_time_grid(std::span<const TimedRow> rows,
                                       std::optional<WholeSeconds> step, Diagnostics& diagnostics) {
  if (rows.empty()) {
    diagnostics.add("there is no row with a time");
    return std::nullopt;
  }
  if (!ascend(rows, diagnostics)) return std::nullopt;
  TimeGrid grid{.start = rows[0].time, .step = step.value_or(usual_distance(rows)), .slots = {}};
  if (grid.step.count() <= 0) {
    diagnostics.add(rows[0].line, rows[0].column, "one row does not tell how long an interval is");
    return std::nullopt;
  }
  if (whole_days(1) % grid.step != WholeSeconds(0)) {
    diagnostics.add("intervals of " + minutes_text(grid.step) + " do not divide a day");
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>((rows.back().time - grid.start) / grid.step) + 1;
  if (size > kLongestSeries) {
    diagnostics.add(rows.back().line, rows.back().column,
                    "too long a time after the first row, " + utc_text(grid.start));
    return std::nullopt;
  }
  bool fine = true;
  for (const TimedRow& row : rows) {
    const WholeSeconds since = row.time - grid.start;
    grid.slots.push_back(static_cast<std::size_t>(since / grid.step));
    if (since % grid.step == WholeSeconds(0)) continue;
    fine = false;
    diagnostics.add(row.line, row.column,
                    utc_text(row.time) + " is not a multiple of " + minutes_text(grid.step) +
                        " after the first row, " + utc_text(grid.start));
  }
  if (!fine) return std::nullopt;
  grid.size = size;
  return grid;
}

}  // namespace harpe
