#include "harpe/command/carbon_cli/backtest_view.h"

#include <algorithm>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"

namespace harpe {
namespace {

/// Null where no forecast had an interval.
Json of_intervals(const ForecastFigures& figures, double value) {
  return figures.intervals > 0 ? Json(value) : Json();
}

Json figures_json(const ForecastFigures& figures) {
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

Json ratios_json(const BacktestResult& result) {
  Json ratios = Json::object();
  for (const auto& [hours, figures] : result.by_horizon) {
    ratios[std::to_string(hours)] = figures.over_same_hour();
  }
  return ratios;
}

/// "2022-01": share of values within their intervals.
Json coverage_json(const BacktestResult& result) {
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

Json result_json(const BacktestResult& result) {
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

std::string months_text(const BacktestResult& result) {
  std::string text;
  std::size_t line = 0;
  for (const auto& [month, figures] : result.by_month) {
    if (figures.intervals == 0) continue;
    text += (line++ % 6 == 0 ? "\n  " : "  ") + month + " " + grouped(figures.coverage * 100, 1);
  }
  return text;
}

}  // namespace

std::string backtest_text(const BacktestView& view, bool coloured) {
  const BacktestResult& result = view.result;
  const IntensitySeries& series = view.series;
  std::string text = (series.zone.empty() ? "" : series.zone + ", ") +
                     std::string(text_of(series.kind)) + ", " + utc_text(series.start) + " to " +
                     utc_text(series.end()) + "\n";
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
  const IntensitySeries& series = view.series;
  Json document = {{"file", view.file},
                   {"train", view.train_file.empty() ? Json() : Json(view.train_file)},
                   {"zone", series.zone.empty() ? Json() : Json(series.zone)},
                   {"kind", text_of(series.kind)},
                   {"source", series.source},
                   {"start", utc_text(series.start)},
                   {"end", utc_text(series.end())},
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
    // Empty where no forecast had an interval.
    for (const double value : {figures.coverage, figures.width, figures.pinball}) {
      text += "," + (figures.intervals > 0 ? shortest(value) : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace harpe
