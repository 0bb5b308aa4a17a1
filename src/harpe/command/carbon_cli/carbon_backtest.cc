#include <memory>
#include <optional>
#include <thread>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/backtest.h"
#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/command/carbon_cli/backtest_view.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/series_options.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/quantity_text.h"

namespace harpe {
namespace {

struct BacktestArguments {
  std::string file, train, csv;
  SeriesArguments series;
  ExogenousArguments exogenous;
  BacktestOptions options;
  std::optional<int> chase_slot;
};

Result<std::vector<int>> parse_horizons(std::string_view text) {
  std::vector<int> hours;
  for (const std::string& item : split_list(text)) {
    hours.push_back(HARPE_TRY(parse_count(item, 1, kFarthestHorizon)));
  }
  return hours;
}

/// With and without exogenous values, each on a thread of its own.
Status run_both(BacktestView& view, const IntensitySeries* earlier,
                const ExogenousSeries* exogenous, Console& console) {
  Result<BacktestResult> plain = BacktestResult();
  std::jthread other;
  if (exogenous != nullptr) {
    other = std::jthread([&] { plain = backtest(view.series, earlier, nullptr, view.options); });
  }
  ProgressBar progress(console, "forecasting");
  const auto result = backtest(view.series, earlier, exogenous, view.options,
                               [&](double fraction) { progress.update(fraction); });
  if (other.joinable()) other.join();
  if (!result.ok()) return result.error();
  if (!plain.ok()) return plain.error();
  view.result = *result;
  if (exogenous != nullptr) view.without_exogenous = *plain;
  return ok_status();
}

Result<Outcome> run_backtest(const BacktestArguments& arguments, Console& console) {
  if (!arguments.csv.empty()) HARPE_TRY(check_writable(arguments.csv));
  BacktestView view{.file = arguments.file,
                    .train_file = arguments.train,
                    .series = HARPE_TRY(read_series(arguments.file, arguments.series)),
                    .options = arguments.options,
                    .result = {},
                    .without_exogenous = {},
                    .chase = {}};
  if (arguments.series.price) {
    return Error::invalid(
        "a forecast of prices is not judged here; harpe carbon simulate uses one");
  }
  std::optional<IntensitySeries> earlier;
  if (!arguments.train.empty()) {
    earlier = HARPE_TRY(read_series(arguments.train, arguments.series));
  }
  const std::optional<ExogenousSeries> exogenous =
      HARPE_TRY(read_exogenous(arguments.exogenous, view.series, earlier ? &*earlier : nullptr));
  if (arguments.chase_slot) {
    view.chase =
        HARPE_TRY(chase_forecast(view.series, static_cast<std::size_t>(*arguments.chase_slot)));
  }
  HARPE_TRY(
      run_both(view, earlier ? &*earlier : nullptr, exogenous ? &*exogenous : nullptr, console));
  Outcome outcome{.text = backtest_text(view, console.colour_out), .json = backtest_json(view)};
  if (!arguments.csv.empty()) keep_result(arguments.csv, backtest_csv(view), console, outcome);
  return outcome;
}

void add_forecast_options(CLI::App& app, BacktestArguments& arguments) {
  add_text(app, "--train", "EARLIER.csv", "The time before, to learn from; it is not judged",
           arguments.train);
  add_exogenous_options(app, "Forecasts are judged with and without", arguments.exogenous);
  add_parsed(app, "--horizons", "HOURS",
             "Hours ahead that are judged beside 1, 3, 6, 12, 18 and 24 (default 48,72,96)",
             arguments.options.horizons, parse_horizons);
  add_parsed(app, "--every", "HOURS", "Hours between forecasts, 1 to 24 (default 1)",
             arguments.options.issue_every,
             [](std::string_view text) { return parse_count(text, 1, 24); });
  add_parsed(app, "--chase", "SLOT",
             "Judge Chase's regression, too, one step ahead from this slot of the file on",
             arguments.chase_slot, [](std::string_view text) -> Result<std::optional<int>> {
               return std::optional<int>(HARPE_TRY(parse_count(text, 1, 10'000'000)));
             });
  add_text(app, "--csv", "FILE", "The figures of each horizon, as a table", arguments.csv);
}

}  // namespace

void add_carbon_backtest_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<BacktestArguments>();
  CLI::App& app = commands.add(
      carbon, "backtest",
      "how good forecasts of a recorded series would have been\n"
      "Rolls over the series, makes a forecast of the next 96 hours each hour from what was known "
      "then, and compares it with what came: the error by horizon over that of the value 24 hours "
      "before, and how often the 80 % interval held, by month. Reads downloads of Electricity "
      "Maps, "
      "ENTSO-E derived files, Chase's, and other tables by their columns.",
      "harpe carbon backtest ES_2022_hourly.csv --train ES_2021_hourly.csv\n"
      "harpe carbon backtest ES_2022.csv --exogenous wind.csv --known-ahead 24h\n"
      "harpe carbon backtest moer.csv --time-column t --value-column v --unit lb/MWh \\\n"
      "  --kind marginal --average 1h --json",
      [arguments](Console& console) { return run_backtest(*arguments, console); });
  app.add_option("SERIES", arguments->file, "Carbon intensities over time")
      ->type_name("SERIES.csv")
      ->required()
      ->group("Arguments");
  add_forecast_options(app, *arguments);
  add_series_options(app, arguments->series);
}

}  // namespace harpe
