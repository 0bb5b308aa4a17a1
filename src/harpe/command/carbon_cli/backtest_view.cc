#include "harpe/command/carbon_cli/backtest_view.h"

#include <algorithm>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/carbon_cli/cells.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"

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
    text += (line++ % 6 == 0 ? "\n  " : "  ") + month + " " + cell(figures.coverage * 100, 1, 0);
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
  const auto with = [&](const std::string& cell) {
    return view.without_exogenous ? padded(cell, 12) : "";
  };
  text += painted(padded("hours", 5) + padded("error %", 10) + padded("same hour", 11) +
                      padded("newest", 9) + padded("/ same hour", 13) + with("without") +
                      padded("80 % holds", 12) + padded("width g", 9),
                  Paint::kBold, coloured) +
          "\n";
  for (const auto& [hours, figures] : result.by_horizon) {
    std::string without;
    if (view.without_exogenous) {
      const auto& plain = view.without_exogenous->by_horizon;
      if (plain.contains(hours)) without = grouped(plain.at(hours).over_same_hour(), 3);
    }
    text += padded(std::to_string(hours), 5) + cell(100 * figures.percentage_error, 2, 10) +
            cell(100 * figures.same_hour_error, 2, 11) +
            cell(100 * figures.persistence_error, 2, 9) + cell(figures.over_same_hour(), 3, 13) +
            with(without) +
            (figures.intervals > 0
                 ? cell(100 * figures.coverage, 1, 10) + " %" + cell(figures.width, 1, 9)
                 : padded("-", 10) + padded("-", 11)) +
            "\n";
  }
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
