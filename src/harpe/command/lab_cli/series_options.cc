#include "harpe/command/lab_cli/series_options.h"

#include <cmath>

#include "harpe/base/csv.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/options.h"
#include "harpe/command/input/input_file.h"

namespace harpe::command {
namespace {

/// Parses an interval such as "1h": whole seconds that divide a day.
Result<carbon::WholeSeconds> parse_interval(std::string_view text) {
  const Seconds time = HARPE_TRY(parse_seconds(text));
  if (time.value < 1 || time.value > 86400 || std::fmod(86400, time.value) != 0) {
    return Error::invalid("expected an interval that divides a day, such as 30min or 1h");
  }
  return carbon::WholeSeconds(static_cast<std::int64_t>(time.value));
}

}  // namespace

void add_series_options(CLI::App& app, SeriesArguments& arguments) {
  carbon::IntensityCsvOptions& csv = arguments.csv;
  add_parsed(app, "--kind", "KIND",
             "Kind of the values: life-cycle, direct or marginal (default: by the file's layout)",
             csv.kind, carbon::parse_intensity_kind);
  add_text(app, "--zone", "ZONE", "Zone to read from a file of several zones", csv.zone);
  add_text(app, "--time-column", "NAME",
           "Column of times in UTC, for a layout that Harpe does not know", csv.time_column);
  add_text(app, "--value-column", "NAME", "Column of values; with --unit and --kind",
           csv.value_column);
  const auto read_unit = [&arguments](const std::string& text) {
    arguments.price = carbon::parse_price_unit(text);
    if (arguments.price) return;
    const auto grams = carbon::parse_intensity_unit(text);
    if (!grams.ok()) throw CLI::ValidationError("--unit", grams.error().text());
    arguments.csv.unit = *grams;
  };
  app.add_option_function<std::string>(
         "--unit", read_unit,
         "Unit of the values: g/kWh (default), kg/MWh, t/GWh, lb/MWh, kg/kWh, t/MWh or g/MJ; for "
         "prices EUR/MWh, ct/kWh, ...")
      ->type_name("UNIT");
  add_parsed(app, "--average", "TIME",
             "Average the values over intervals of this length, such as 1h", arguments.average,
             parse_interval);
  app.add_flag("--utc-hours", csv.hours_are_utc, "Read the hours of a separate column as UTC");
  app.add_flag("--any-value", csv.any_value,
               "Accept values over 3000 g/kWh, and negative values of an average intensity");
}

void add_price_option(CLI::App& app, SeriesArguments& arguments) {
  app.add_flag("--price", arguments.is_price,
               "Read the series as prices, in the format of harpe carbon prices or in --unit "
               "(EUR/MWh, ct/kWh, ...); costs are in money");
}

Status take_price_heading(const std::string& file, SeriesArguments& arguments) {
  if (!arguments.is_price || arguments.price) return ok_status();
  const std::string text = HARPE_TRY(read_input_file(file));
  Diagnostics ignored(file);
  const std::vector<CsvRow> rows = split_csv(text, ignored);
  if (!rows.empty() && rows.front().cells.size() > 1 && rows.front().cells[0].text == "time") {
    for (const CsvCell& cell : rows.front().cells) {
      arguments.price = carbon::parse_price_unit(cell.text);
      if (!arguments.price) continue;
      arguments.csv.time_column = "time";
      arguments.csv.value_column = cell.text;
      return ok_status();
    }
  }
  return Error::invalid(
      "give the unit of the prices: --unit EUR/MWh, USD/MWh, ct/kWh, ... (no column name in " +
      file + " is a unit)");
}

Result<carbon::IntensitySeries> read_series(const std::string& file,
                                            const SeriesArguments& arguments) {
  carbon::IntensityCsvOptions options = arguments.csv;
  if (arguments.price) {
    if (options.kind) return Error::invalid("a price has no kind of intensity: leave out --kind");
    if (options.time_column.empty() || options.value_column.empty()) {
      return Error::invalid("for prices, give --time-column and --value-column");
    }
    options.kind = IntensityKind::kPrice;
    options.unit = arguments.price->per_mwh;
  }
  const std::string text = HARPE_TRY(read_input_file(file));
  carbon::IntensitySeries series = HARPE_TRY(carbon::parse_intensity_csv(text, file, options));
  if (arguments.average) series = HARPE_TRY(carbon::coarsened(series, *arguments.average));
  return series;
}

void add_exogenous_options(CLI::App& app, const std::string& use, ExogenousArguments& arguments) {
  const OptionGroup group(app, "Options");
  add_text(app, "--exogenous", "FILE.csv",
           "Weather, load, ...: a column of times in UTC and columns of numbers. " + use,
           arguments.file);
  add_parsed(
      app, "--exogenous-columns", "NAMES", "Columns to use (default: all columns of numbers)",
      arguments.options.columns,
      [](std::string_view text) -> Result<std::vector<std::string>> { return split_list(text); });
  add_parsed(app, "--known-ahead", "TIME",
             "How long in advance exogenous values are known: 0 for measured values (default), 24h "
             "for day-ahead forecasts as they were issued",
             arguments.options.known_ahead,
             [](std::string_view text) -> Result<carbon::WholeSeconds> {
               const Seconds time = HARPE_TRY(parse_seconds(text));
               if (time.value > 96 * 3600) return Error::invalid("expected 96 h at most");
               return carbon::WholeSeconds(static_cast<std::int64_t>(time.value));
             });
}

Result<std::optional<carbon::ExogenousSeries>> read_exogenous(
    const ExogenousArguments& arguments, const carbon::IntensitySeries& series,
    const carbon::IntensitySeries* earlier) {
  if (arguments.file.empty()) return std::optional<carbon::ExogenousSeries>();
  carbon::IntensitySeries both = series;
  if (earlier != nullptr) both = HARPE_TRY(carbon::joined(*earlier, series));
  const std::string text = HARPE_TRY(read_input_file(arguments.file));
  return std::optional(HARPE_TRY(carbon::parse_exogenous_csv(
      text, arguments.file, arguments.options, both.start, both.step, both.size())));
}

}  // namespace harpe::command
