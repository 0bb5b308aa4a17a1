#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/series_options.h"
#include "harpe/lab/carbon_replay/backtest.h"
#include "harpe/lab/carbon_replay/chase_forecast.h"

namespace harpe::command {
namespace {

struct BacktestView {
  std::string file, train_file;  ///< empty if not given
  carbon::IntensitySeries series;
  lab::BacktestOptions options;
  lab::BacktestResult result;
  std::optional<lab::BacktestResult> without_exogenous;  ///< if exogenous values were given
  std::optional<lab::ChaseForecast> chase;
};

/// Returns the value; null if no forecast had an interval.
Json of_intervals(const lab::ForecastFigures& figures, double value) {
  return figures.intervals > 0 ? Json(value) : Json();
}

Json figures_json(const lab::ForecastFigures& figures) {
  return {{"forecasts", figures.forecasts},
          {"percentage_error", 100 * figures.percentage_error},
          {"same_hour_percentage_error", 100 * figures.same_hour_error},
          {"persistence_percentage_error", 100 * figures.persistence_error},
          {"error_over_same_hour", figures.over_same_hour()},
          {"absolute_error_g_per_kwh", figures.absolute_error},
          {"bias_g_per_kwh", figures.bias},
          {"coverage_80", of_intervals(figures, figures.coverage)},
          {"interval_width_g_per_kwh", of_intervals(figures, figures.width)},
          {"pinball_g_per_kwh", of_intervals(figures, figures.pinball)}};
}

Json ratios_json(const lab::BacktestResult& result) {
  Json ratios = Json::object();
  for (const auto& [hours, figures] : result.by_horizon) {
    ratios[std::to_string(hours)] = figures.over_same_hour();
  }
  return ratios;
}

/// Returns the share of values within their intervals, by month such as "2022-01".
Json coverage_json(const lab::BacktestResult& result) {
  Json months = Json::object();
  for (const auto& [month, figures] : result.by_month) {
    if (figures.intervals > 0) months[month] = figures.coverage;
  }
  return months;
}

Json by_hours(const std::map<int, double>& values) {
  Json object = Json::object();
  for (const auto& [hours, value] : values) object[std::to_string(hours)] = value;
  return object;
}

Json result_json(const lab::BacktestResult& result) {
  Json horizons = Json::object(), months = Json::object(), members = Json::object();
  for (const auto& [hours, figures] : result.by_horizon) {
    horizons[std::to_string(hours)] = figures_json(figures);
  }
  for (const auto& [month, values] : result.coverage_by_month) months[month] = by_hours(values);
  for (const auto& [name, values] : result.members) members[name] = by_hours(values);
  return {{"error_over_same_hour", ratios_json(result)},
          {"mean", result.mean_over_same_hour},
          {"coverage_80", coverage_json(result)},
          {"coverage_80_by_horizon", std::move(months)},
          {"horizons", std::move(horizons)},
          {"members_error_over_same_hour", std::move(members)}};
}

std::string months_text(const lab::BacktestResult& result) {
  std::string text;
  std::size_t line = 0;
  for (const auto& [month, figures] : result.by_month) {
    if (figures.intervals == 0) continue;
    text += (line++ % 6 == 0 ? "\n  " : "  ") + month + " " + grouped(figures.coverage * 100, 1);
  }
  return text;
}

std::string backtest_text(const BacktestView& view, bool coloured) {
  const lab::BacktestResult& result = view.result;
  const carbon::IntensitySeries& series = view.series;
  std::string text = (series.zone.empty() ? "" : series.zone + ", ") +
                     std::string(text_of(series.kind)) + ", " + carbon::utc_text(series.start) +
                     " to " + carbon::utc_text(series.end()) + "\n";
  std::vector<std::string> headings = {"hours",       "error %",    "same hour", "newest",
                                       "/ same hour", "80 % holds", "width g"};
  if (view.without_exogenous) headings.insert(headings.begin() + 5, "without");
  Table table = Table::of(headings, 0);
  for (const auto& [hours, figures] : result.by_horizon) {
    const bool intervals = figures.intervals > 0;
    std::vector<std::string> cells = {
        std::to_string(hours), grouped(100 * figures.percentage_error, 2),
        grouped(100 * figures.same_hour_error, 2), grouped(100 * figures.persistence_error, 2),
        grouped(figures.over_same_hour(), 3)};
    if (view.without_exogenous) {
      const auto& plain = view.without_exogenous->by_horizon;
      const auto found = plain.find(hours);
      cells.push_back(found == plain.end() ? "" : grouped(found->second.over_same_hour(), 3));
    }
    cells.push_back(intervals ? grouped(100 * figures.coverage, 1) + " %" : "-");
    cells.push_back(intervals ? grouped(figures.width, 1) : "-");
    table.add(std::move(cells));
  }
  text += table.text(coloured);
  text += "mean of 1, 3, 6, 12, 18 and 24 h: " + grouped(result.mean_over_same_hour, 3);
  if (view.without_exogenous) {
    text += ", without exogenous values " + grouped(view.without_exogenous->mean_over_same_hour, 3);
  }
  const std::string months = months_text(result);
  text += " of the error of the same hour yesterday\n80 % intervals " +
          (months.empty() ? "need a week of errors" : "hold, by month:" + months) + "\n";
  if (view.chase) {
    text +=
        "Chase's regression, one step ahead: " + grouped(100 * view.chase->percentage_error, 2) +
        " %, the newest value " + grouped(100 * view.chase->persistence_error, 2) + " %\n";
  }
  if (result.gaps + result.estimates > 0) {
    text += std::to_string(result.gaps) + " values are missing, " +
            std::to_string(result.estimates) + " estimated\n";
  }
  return text;
}

std::string backtest_json(const BacktestView& view) {
  const carbon::IntensitySeries& series = view.series;
  Json document = {{"file", view.file},
                   {"train", view.train_file.empty() ? Json() : Json(view.train_file)},
                   {"zone", series.zone.empty() ? Json() : Json(series.zone)},
                   {"kind", text_of(series.kind)},
                   {"source", series.source},
                   {"start", carbon::utc_text(series.start)},
                   {"end", carbon::utc_text(series.end())},
                   {"step_s", series.step.count()},
                   {"values", series.size()},
                   {"gaps", view.result.gaps},
                   {"estimated", view.result.estimates},
                   {"forecast_every_h", view.options.issue_every}};
  document.update(result_json(view.result));
  if (view.without_exogenous) document["without_exogenous"] = result_json(*view.without_exogenous);
  if (view.chase) {
    document["chase"] = {{"forecasts", view.chase->expected.size()},
                         {"percentage_error", 100 * view.chase->percentage_error},
                         {"persistence_percentage_error", 100 * view.chase->persistence_error}};
  }
  return json_text(document);
}

/// Returns one line for each horizon.
std::string backtest_csv(const BacktestView& view) {
  std::string text =
      "horizon_h,forecasts,percentage_error,same_hour_percentage_error,"
      "persistence_percentage_error,error_over_same_hour,absolute_error_g_per_kwh,"
      "bias_g_per_kwh,coverage_80,interval_width_g_per_kwh,pinball_g_per_kwh\n";
  for (const auto& [hours, figures] : view.result.by_horizon) {
    text += std::to_string(hours) + "," + std::to_string(figures.forecasts);
    for (const double value : {100 * figures.percentage_error, 100 * figures.same_hour_error,
                               100 * figures.persistence_error, figures.over_same_hour(),
                               figures.absolute_error, figures.bias}) {
      text += "," + shortest(value);
    }
    // Empty if no forecast had an interval.
    for (const double value : {figures.coverage, figures.width, figures.pinball}) {
      text += "," + (figures.intervals > 0 ? shortest(value) : "");
    }
    text += '\n';
  }
  return text;
}

struct BacktestArguments {
  std::string file, train, csv;
  SeriesArguments series;
  ExogenousArguments exogenous;
  lab::BacktestOptions options;
  std::optional<int> chase_slot;
};

Result<std::vector<int>> parse_horizons(std::string_view text) {
  std::vector<int> hours;
  for (const std::string& item : split_list(text)) {
    hours.push_back(HARPE_TRY(parse_count(item, 1, lab::kFarthestHorizon)));
  }
  return hours;
}

/// Runs the backtest with and without exogenous values, each on its own thread.
Status run_both(BacktestView& view, const carbon::IntensitySeries* earlier,
                const carbon::ExogenousSeries* exogenous, Console& console) {
  Result<lab::BacktestResult> plain = lab::BacktestResult();
  std::jthread other;
  if (exogenous != nullptr) {
    other =
        std::jthread([&] { plain = lab::backtest(view.series, earlier, nullptr, view.options); });
  }
  ProgressBar progress(console, "forecasting");
  const auto result = lab::backtest(view.series, earlier, exogenous, view.options,
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
        "forecasts of prices are not judged here; harpe carbon simulate uses them");
  }
  std::optional<carbon::IntensitySeries> earlier;
  if (!arguments.train.empty()) {
    earlier = HARPE_TRY(read_series(arguments.train, arguments.series));
  }
  const std::optional<carbon::ExogenousSeries> exogenous =
      HARPE_TRY(read_exogenous(arguments.exogenous, view.series, earlier ? &*earlier : nullptr));
  if (arguments.chase_slot) {
    view.chase = HARPE_TRY(
        lab::chase_forecast(view.series, static_cast<std::size_t>(*arguments.chase_slot)));
  }
  HARPE_TRY(
      run_both(view, earlier ? &*earlier : nullptr, exogenous ? &*exogenous : nullptr, console));
  Outcome outcome{.text = backtest_text(view, console.colour_out), .json = backtest_json(view)};
  if (!arguments.csv.empty()) keep_result(arguments.csv, backtest_csv(view), console, outcome);
  return outcome;
}

void add_forecast_options(CLI::App& app, BacktestArguments& arguments) {
  add_text(app, "--train", "EARLIER.csv", "Earlier series to learn from; it is not judged",
           arguments.train);
  add_exogenous_options(app, "Forecasts are judged with and without them", arguments.exogenous);
  add_parsed(app, "--horizons", "HOURS",
             "Hours ahead to judge in addition to 1, 3, 6, 12, 18 and 24 (default 48,72,96)",
             arguments.options.horizons, parse_horizons);
  add_parsed(app, "--every", "HOURS", "Hours between forecasts, 1 to 24 (default 1)",
             arguments.options.issue_every, count_within(1, 24));
  add_parsed(app, "--chase", "SLOT",
             "Also judge Chase's regression, one step ahead, from this slot of the file on",
             arguments.chase_slot, count_within(1, 10'000'000));
  add_text(app, "--csv", "FILE", "CSV file of the figures of each horizon", arguments.csv);
}

}  // namespace

void add_carbon_backtest_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<BacktestArguments>();
  CLI::App& app = commands.add(
      carbon, "backtest",
      "accuracy of forecasts over recorded series\n"
      "Steps through the series, makes a forecast of the next 96 hours each hour from the values "
      "known at that hour, and compares it with the actual values. Prints the error by horizon, "
      "divided by the error of the value 24 hours before, and by month how often the 80 % interval "
      "contained the actual value. Reads downloads of Electricity Maps, ENTSO-E derived files, "
      "Chase's files, and other tables by their columns.",
      "harpe carbon backtest ES_2022_hourly.csv --train ES_2021_hourly.csv\n"
      "harpe carbon backtest ES_2022.csv --exogenous wind.csv --known-ahead 24h\n"
      "harpe carbon backtest moer.csv --time-column t --value-column v \\\n"
      "  --unit lb/MWh --kind marginal --average 1h --json",
      [arguments](Console& console) { return run_backtest(*arguments, console); });
  app.add_option("SERIES", arguments->file, "Carbon intensities over time")
      ->type_name("SERIES.csv")
      ->required()
      ->group("Arguments");
  add_forecast_options(app, *arguments);
  add_series_options(app, arguments->series);
}

}  // namespace harpe::command
