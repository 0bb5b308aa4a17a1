#pragma once
/// \file
/// What else may tell of an intensity to come: weather, day-ahead wind and solar, load.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

/// Columns on the grid of the intensities they go with. A forecaster at step i reads values up to
/// step i + known_ahead and no later one, so `known_ahead` is what keeps a backtest honest: 0 for
/// what is measured, a day's steps for day-ahead forecasts *as they were issued*.
struct ExogenousSeries {
  struct Column {
    std::string name;
    std::vector<double> values;  ///< as long as the intensities; NaN: not known
  };
  std::vector<Column> columns = {};
  std::size_t known_ahead = 0;
};

struct ExogenousOptions {
  std::vector<std::string> columns = {};  ///< empty: every column that has numbers
  WholeSeconds known_ahead{0};
};

/// Reads a table with a time column (the first whose name begins with "date", "time" or
/// "timestamp"; UTC) and columns of numbers, and puts each row's values into the interval of the
/// grid that it begins in; of several in one interval their mean. Rows outside of the grid are left
/// out; a column in which any cell is no number is left out where it was not asked for by name.
/// Fails where times cannot be read, no row falls on the grid, a column that was asked for is not
/// there, and over kMostExogenousColumns.
Result<ExogenousSeries> parse_exogenous_csv(std::string_view text, const std::string& file,
                                            const ExogenousOptions& options, UtcTime start,
                                            WholeSeconds step, std::size_t size);

/// Each costs a forecaster some features.
inline constexpr std::size_t kMostExogenousColumns = 16;

}  // namespace harpe::carbon
