#pragma once
/// \file
/// The regular grid that the times of a file's rows lie on.

#include <optional>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe {

/// The time of one row, and where it stands in the file.
struct TimedRow {
  UtcTime time{};
  int line = 0;
  int column = 0;
};

/// Row r is interval `slots[r]`, the one that starts at start + slots[r] * step. Slots ascend; what
/// no row has is a gap.
struct TimeGrid {
  UtcTime start{};
  WholeSeconds step{0};
  std::size_t size = 0;
  std::vector<std::size_t> slots = {};
};

/// The grid of rows in the order of the file, with the most frequent distance between neighbours as
/// its step, or the one given. Adds a diagnostic for each time that is not after the one before
/// (twice the same: an hour of local time that the end of summer time repeats) and each that is not
/// on the grid, and gives nullopt. So it does where there is no row, one row without a step, a
/// step that does not divide a day, and for a grid over kLongestSeries. O(rows log rows).
std::optional<TimeGrid> find_time_grid(std::span<const TimedRow> rows,
                                       std::optional<WholeSeconds> step, Diagnostics& diagnostics);

}  // namespace harpe
