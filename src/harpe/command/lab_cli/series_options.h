#pragma once
/// \file
/// The options that say how a file of carbon intensities is read: the same for each subcommand.

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
  std::optional<carbon::PriceUnit> price = {};       ///< of a series of prices
  bool is_price = false;                             ///< that it is one of prices was said
  std::optional<carbon::WholeSeconds> average = {};  ///< to intervals of so long
};

/// --kind, --zone, --time-column, --value-column, --unit, --average, --utc-hours, --any-value.
/// `arguments` must outlive the command line.
void add_series_options(CLI::App& app, SeriesArguments& arguments);

/// --price.
void add_price_option(CLI::App& app, SeriesArguments& arguments);

/// Where --price was given without --unit, unit and columns are those that the file's heading
/// names, as harpe carbon prices writes it: "time,EUR/MWh". Fails where it names none.
Status take_price_heading(const std::string& file, SeriesArguments& arguments);

/// Of prices where --unit is one of prices; a kind beside it is refused.
Result<carbon::IntensitySeries> read_series(const std::string& file,
                                            const SeriesArguments& arguments);

/// Weather, load, ... beside a series.
struct ExogenousArguments {
  std::string file;
  carbon::ExogenousOptions options;
};
/// --exogenous, --exogenous-columns and --known-ahead. `arguments` must outlive the command line.
/// \param use  what is done with them, for the help
void add_exogenous_options(CLI::App& app, const std::string& use, ExogenousArguments& arguments);
/// On the grid of both series joined (`earlier` may be null); none where no file is given.
Result<std::optional<carbon::ExogenousSeries>> read_exogenous(
    const ExogenousArguments& arguments, const carbon::IntensitySeries& series,
    const carbon::IntensitySeries* earlier);

}  // namespace harpe::command
