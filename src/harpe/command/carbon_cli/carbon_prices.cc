#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

struct PricesArguments {
  SourceArguments source;
  std::optional<carbon::UtcTime> from, to;
  std::string csv;
};

struct PriceFigures {
  std::size_t known = 0, negative = 0;
  double mean = 0, lowest = 0, highest = 0;
};

/// \pre one of the prices is known
PriceFigures figures_of(const carbon::IntensitySeries& series) {
  PriceFigures figures;
  double sum = 0;
  for (const double price : series.values) {
    if (std::isnan(price)) continue;
    figures.lowest = figures.known == 0 ? price : std::min(figures.lowest, price);
    figures.highest = figures.known == 0 ? price : std::max(figures.highest, price);
    ++figures.known;
    figures.negative += price < 0 ? 1 : 0;
    sum += price;
  }
  figures.mean = sum / static_cast<double>(figures.known);
  return figures;
}

std::string prices_text(const std::string& source, const carbon::DayAheadPrices& found) {
  const carbon::IntensitySeries& series = found.prices.series;
  const PriceFigures figures = figures_of(series);
  std::string text = source + ": day-ahead prices\n" + std::to_string(figures.known) + " of " +
                     shortest(static_cast<double>(series.step.count()) / 60) + " min from " +
                     carbon::utc_text(series.start) + " to " + carbon::utc_text(series.end()) +
                     "\nmean " + grouped(figures.mean, 2) + ", lowest " +
                     grouped(figures.lowest, 2) + ", highest " + grouped(figures.highest, 2) + " " +
                     found.money + "/MWh\n" + std::to_string(figures.negative) + " below 0, " +
                     std::to_string(series.gaps()) + " not known\n";
  for (const std::string& note : found.prices.notes) text += "note: " + note + "\n";
  return text;
}

std::string prices_json(const std::string& source, const carbon::DayAheadPrices& found) {
  const carbon::IntensitySeries& series = found.prices.series;
  Json document = {{"source", source},
                   {"zone", series.zone},
                   {"unit", found.money + "/MWh"},
                   {"money", found.money},
                   {"kind", "price"},
                   {"data_source", series.source},
                   {"fetched_at", carbon::utc_text(found.prices.fetched_at)},
                   {"start", carbon::utc_text(series.start)},
                   {"step_s", series.step.count()}};
  Json values = Json::array();
  for (std::size_t i = 0; i < series.size(); ++i) {
    values.push_back({{"start", carbon::utc_text(series.start_of(i))},
                      {"price", series.known(i) ? Json(series.values[i]) : Json(nullptr)}});
  }
  document["values"] = std::move(values);
  document["notes"] = found.prices.notes;
  return json_text(document);
}

/// Returns prices with the heading by which `simulate --price` recognises them.
std::string prices_csv(const carbon::DayAheadPrices& found) {
  const carbon::IntensitySeries& series = found.prices.series;
  std::string text = "# " + series.source + ", " + series.zone + ", fetched " +
                     carbon::utc_text(found.prices.fetched_at) + "\ntime," + found.money + "/MWh\n";
  for (std::size_t i = 0; i < series.size(); ++i) {
    text += carbon::utc_text(series.start_of(i)) + "," +
            (series.known(i) ? shortest(series.values[i]) : "") + "\n";
  }
  return text;
}

Result<Outcome> run_prices(const PricesArguments& arguments) {
  const carbon::UtcTime now = carbon::utc_clock()();
  // Tomorrow's prices are published in the afternoon.
  const carbon::UtcTime to = arguments.to.value_or(carbon::interval_of(now, carbon::whole_days(1)) +
                                                   carbon::whole_days(2));
  const carbon::UtcTime from = arguments.from.value_or(std::min(now, to - carbon::whole_hours(1)));
  const carbon::DayAheadPrices found = HARPE_TRY(carbon::day_ahead_prices(
      arguments.source.source, source_environment(arguments.source), from, to));
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, prices_csv(found)));
  return Outcome{.text = prices_text(arguments.source.text, found),
                 .json = prices_json(arguments.source.text, found)};
}

}  // namespace

void add_carbon_prices_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<PricesArguments>();
  CLI::App& app = commands.add(
      carbon, "prices",
      "day-ahead prices of electricity\n"
      "Prints the prices of a bidding zone from ENTSO-E, in the zone's currency per MWh. Prices "
      "may be negative. A job can be paced by prices as by carbon: harpe carbon simulate --price "
      "reads the file of --csv.",
      "harpe carbon prices entsoe:10Y1001A1001A82H\n"
      "harpe carbon prices 'entsoe:10Y1001A1001A82H?step=15' --from 2025-01-01 \\\n"
      "  --to 2026-01-01 --csv prices.csv",
      [arguments](Console&) { return run_prices(*arguments); });
  add_source_argument(app, "entsoe:EIC of the bidding zone; ?step=15 for quarter-hours",
                      arguments->source);
  add_parsed(app, "--from", "TIME", "Begin, in UTC (default: now)", arguments->from,
             parse_time_option);
  add_parsed(app, "--to", "TIME", "End, in UTC (default: the end of tomorrow)", arguments->to,
             parse_time_option);
  add_text(app, "--csv", "FILE", "CSV file for harpe carbon simulate --price", arguments->csv);
}

}  // namespace harpe::command
