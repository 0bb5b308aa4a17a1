#pragma once
/// \file
/// Exogenous data for forecasts of intensity: weather, day-ahead wind and solar, load.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

/// Columns on the grid of the corresponding intensities. A forecaster at step i reads no value
/// after step i + known_ahead, so `known_ahead` keeps a backtest honest: 0 for measured values, a
/// day's steps for day-ahead forecasts *as they were issued*.
struct ExogenousSeries {
  struct Column {
    std::string name;
    std::vector<double> values;  ///< as long as the intensities; NaN if unknown
  };
  std::vector<Column> columns = {};
  std::size_t known_ahead = 0;
};

struct ExogenousOptions {
  std::vector<std::string> columns = {};  ///< empty for all columns of numbers
  WholeSeconds known_ahead{0};
};

/// Reads a table with a time column (the first whose name begins with "date", "time" or
/// "timestamp"; UTC) and columns of numbers. Adds each row's values to the grid interval in which
/// the row begins; several rows in one interval are averaged. Rows outside of the grid are ignored,
/// and so is a column with a cell that is not a number, unless it was requested by name. Fails if
/// times cannot be read, if no row is on the grid, if a requested column is missing, or above
/// kMostExogenousColumns.
Result<ExogenousSeries> parse_exogenous_csv(std::string_view text, const std::string& file,
                                            const ExogenousOptions& options, UtcTime start,
                                            WholeSeconds step, std::size_t size);

/// Limit on columns: each column adds features to a forecaster.
inline constexpr std::size_t kMostExogenousColumns = 16;

}  // namespace harpe::carbon
