#include "harpe/carbon_cli/series_options.h"

#include <cmath>

#include "harpe/base/file.h"
#include "harpe/command/options.h"
#include "harpe/command/quantity_text.h"

namespace harpe {
namespace {

/// "1h": whole seconds that divide a day.
Result<WholeSeconds> parse_interval(std::string_view text) {
  const Seconds time = HARPE_TRY(parse_seconds(text));
  if (time.value < 1 || time.value > 86400 || std::fmod(86400, time.value) != 0) {
    return Error::invalid("expected an interval that divides a day, such as 30min or 1h");
  }
  return WholeSeconds(static_cast<std::int64_t>(time.value));
}

}  // namespace

void add_series_options(CLI::App& app, SeriesArguments& arguments) {
  IntensityCsvOptions& csv = arguments.csv;
  add_parsed(app, "--kind", "KIND",
             "Of the values: life-cycle, direct or marginal (default by the layout)", csv.kind,
             parse_intensity_kind);
  add_text(app, "--zone", "ZONE", "Of a file of several zones, the one that is read", csv.zone);
  add_text(app, "--time-column", "NAME",
           "Column of times in UTC, of a layout that Harpe does not know", csv.time_column);
  add_text(app, "--value-column", "NAME", "Column of values; with --unit and --kind",
           csv.value_column);
  add_parsed(app, "--unit", "UNIT",
             "Of the values: g/kWh (default), kg/MWh, t/GWh, lb/MWh, kg/kWh, t/MWh or g/MJ",
             csv.unit, parse_intensity_unit);
  add_parsed(app, "--average", "TIME", "Average the values to intervals of so long, such as 1h",
             arguments.average, parse_interval);
  app.add_flag("--utc-hours", csv.hours_are_utc,
               "Hours in a column of their own are UTC, not local time");
  app.add_flag("--any-value", csv.any_value,
               "Take values over 3000 g/kWh, and negative averages, as they are");
}

Result<IntensitySeries> read_series(const std::string& file, const SeriesArguments& arguments) {
  const std::string text = HARPE_TRY(read_file(file));
  IntensitySeries series = HARPE_TRY(parse_intensity_csv(text, file, arguments.csv));
  if (arguments.average) series = HARPE_TRY(coarsened(series, *arguments.average));
  return series;
}

}  // namespace harpe
