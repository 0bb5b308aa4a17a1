#pragma once
/// \file
/// The options that say how a file of carbon intensities is read: the same for each subcommand.

#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/carbon/intensity_csv.h"
#include "harpe/carbon/intensity_series.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe {

struct SeriesArguments {
  IntensityCsvOptions csv = {};
  std::optional<WholeSeconds> average = {};  ///< to intervals of so long
};

/// --kind, --zone, --time-column, --value-column, --unit, --average, --utc-hours, --any-value.
/// `arguments` must outlive the command line.
void add_series_options(CLI::App& app, SeriesArguments& arguments);

Result<IntensitySeries> read_series(const std::string& file, const SeriesArguments& arguments);

}  // namespace harpe
