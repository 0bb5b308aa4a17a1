#pragma once
/// \file
/// The options for reading a file of carbon intensities, shared by all subcommands.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_csv.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe::command {

struct SeriesArguments {
  carbon::IntensityCsvOptions csv = {};
  std::optional<carbon::PriceUnit> price = {};  ///< of a series of prices
  /// The options state that it is a series of prices.
  bool is_price = false;
  std::optional<carbon::WholeSeconds> average = {};  ///< length of the intervals to average to
};

/// Adds --kind, --zone, --time-column, --value-column, --unit, --average, --utc-hours and
/// --any-value. `arguments` must outlive the command line.
void add_series_options(CLI::App& app, SeriesArguments& arguments);

/// Adds --price.
void add_price_option(CLI::App& app, SeriesArguments& arguments);

/// If --price was given without --unit, takes unit and columns from the file's heading, in the form
/// that `harpe carbon prices` writes: "time,EUR/MWh". Fails if the heading has none.
Status take_price_heading(const std::string& file, SeriesArguments& arguments);

/// Reads a series; a series of prices if --unit is a unit of prices, and then refuses --kind.
Result<carbon::IntensitySeries> read_series(const std::string& file,
                                            const SeriesArguments& arguments);

/// Weather, load and other series beside a series of intensities.
struct ExogenousArguments {
  std::string file;
  carbon::ExogenousOptions options;
};
/// Adds --exogenous, --exogenous-columns and --known-ahead. `arguments` must outlive the command
/// line.
/// \param use  their purpose, for the help
void add_exogenous_options(CLI::App& app, const std::string& use, ExogenousArguments& arguments);
/// Reads them on the grid of both series joined (`earlier` may be null); nullopt without a file.
Result<std::optional<carbon::ExogenousSeries>> read_exogenous(
    const ExogenousArguments& arguments, const carbon::IntensitySeries& series,
    const carbon::IntensitySeries* earlier);

}  // namespace harpe::command
