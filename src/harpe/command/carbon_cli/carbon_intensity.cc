// `harpe carbon now`, `history` and `forecast`: labelled intensities for people, as JSON and as
// CSV. Every number has its kind and its step of the ladder.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

/// A source of intensities and its method.
struct SourceView {
  std::string source;  ///< as the user wrote it
  carbon::SourceIdentity identity;
  std::string method;  ///< CarbonSource::method()
};

constexpr const char* kGramsUnit = "gCO2eq/kWh";

std::string grams_text(double grams) {
  return std::isnan(grams) ? "not known" : grouped(grams, 0);
}

/// Returns a time such as "2026-01-15 10:00".
std::string minute_text(carbon::UtcTime time) {
  std::string text = carbon::utc_text(time).substr(0, 16);
  text[10] = ' ';
  return text;
}

/// Returns a line which warns that the rows of a constant are not figures of single hours.
std::string constant_text(const SourceView& view) {
  const bool is_constant = view.identity.provider == "constant";
  return is_constant ? "one number, the same for every hour: not specific to these hours\n" : "";
}

std::string notes_text(const SourceView& view, const std::vector<std::string>& notes) {
  std::string text;
  if (!view.method.empty()) text += "method: " + view.method + "\n";
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

Json optional_time(const std::optional<carbon::UtcTime>& time) {
  return time ? Json(carbon::utc_text(*time)) : Json(nullptr);
}

Json fetched_json(std::int64_t fetched_at) {
  if (fetched_at == 0) return nullptr;
  return carbon::utc_text(carbon::UtcTime{fetched_at});
}

Json number_json(double value) {
  return std::isnan(value) ? Json(nullptr) : Json(value);
}

/// Returns the fields at the beginning of all documents.
Json head_json(const SourceView& view, IntensityKind kind, const std::string& zone,
               const std::string& source) {
  return {{"source", view.source}, {"provider", view.identity.provider}, {"zone", zone},
          {"unit", kGramsUnit},    {"kind", carbon::kind_word(kind)},    {"data_source", source}};
}

/// Returns comment lines for a CSV. Control characters in a file's name must not end a comment.
std::string csv_head(const SourceView& view, const carbon::IntensitySeries& series) {
  std::string name = view.source;
  std::ranges::replace_if(name, is_control, '?');
  std::string text = "# " + name + ": " + std::string(text_of(series.kind)) + ", " + kGramsUnit +
                     ", intervals of " + std::to_string(series.step.count()) + " s, UTC\n# " +
                     series.source + "\n";
  if (!view.method.empty()) text += "# " + view.method + "\n";
  return text;
}

/// Returns false for a number of all hours: a yearly mean, or a number given by the user.
bool is_of_an_hour(const carbon::LabelledIntensity& current) {
  return current.ladder != carbon::LadderStep::kYearlyMean;
}

/// Returns the line that names a LadderStep or ForecastStep.
template <class Step>
std::string ladder_text(Step step) {
  return "ladder: " + std::string(carbon::text_of(step)) +
         (carbon::carbon_control_allowed(step)
              ? ""
              : "; too uncertain for carbon control: keep a fixed plan") +
         "\n";
}

std::string current_text(const SourceView& view, const carbon::LabelledIntensity& current,
                         bool coloured) {
  const CarbonIntensity& intensity = current.intensity;
  std::string text =
      painted(grams_text(intensity.grams_per_kwh) + " " + kGramsUnit, Paint::kBold, coloured) +
      "  " + view.source + ", " + std::string(text_of(intensity.kind)) + "\n";
  text += ladder_text(current.ladder);
  if (is_of_an_hour(current)) {
    text += "of " + minute_text(current.start) + " to " +
            minute_text(current.start + current.step).substr(11) + " UTC" +
            (current.estimated ? ", estimated" : "") + "\n";
  } else {
    text += "the same for every hour: not specific to the present hour\n";
  }
  if (current.issued_at) text += "issued " + minute_text(*current.issued_at) + " UTC\n";
  if (current.fetched_at) text += "fetched " + minute_text(*current.fetched_at) + " UTC\n";
  if (!intensity.source.empty()) text += "from " + intensity.source + "\n";
  return text + notes_text(view, current.notes);
}

std::string current_json(const SourceView& view, const carbon::LabelledIntensity& current) {
  const CarbonIntensity& intensity = current.intensity;
  Json document = head_json(view, intensity.kind, intensity.zone, intensity.source);
  document["grams_per_kwh"] = number_json(intensity.grams_per_kwh);
  const bool has_hour = is_of_an_hour(current);
  document["start"] = has_hour ? Json(carbon::utc_text(current.start)) : Json(nullptr);
  document["end"] = has_hour ? Json(carbon::utc_text(current.start + current.step)) : Json(nullptr);
  document["estimated"] = current.estimated;
  document["ladder"] = carbon::text_of(current.ladder);
  document["control_allowed"] = carbon::carbon_control_allowed(current.ladder);
  document["fetched_at"] = optional_time(current.fetched_at);
  document["issued_at"] = optional_time(current.issued_at);
  document["method"] = view.method;
  document["notes"] = current.notes;
  return json_text(document);
}

std::string history_text(const SourceView& view, const carbon::LabelledHistory& history) {
  const carbon::IntensitySeries& series = history.series;
  double sum = 0, lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  std::size_t known = 0;
  for (const double grams : series.values) {
    if (std::isnan(grams)) continue;
    ++known;
    sum += grams;
    lowest = std::min(lowest, grams);
    highest = std::max(highest, grams);
  }
  std::string text = view.source + ": " + std::string(text_of(series.kind)) + "\n" +
                     constant_text(view) + std::to_string(known) + " values of " +
                     shortest(static_cast<double>(series.step.count()) / 60) + " min from " +
                     minute_text(series.start) + " to " + minute_text(series.end()) + " UTC\n";
  if (known > 0) {
    text += "mean " + grams_text(sum / static_cast<double>(known)) + ", lowest " +
            grams_text(lowest) + ", highest " + grams_text(highest) + " " + kGramsUnit + "\n";
  }
  text += std::to_string(series.estimates()) + " estimated, " + std::to_string(series.gaps()) +
          " not known\n";
  return text + notes_text(view, history.notes);
}

std::string history_json(const SourceView& view, const carbon::LabelledHistory& history) {
  const carbon::IntensitySeries& series = history.series;
  Json document = head_json(view, series.kind, series.zone, series.source);
  document["start"] = carbon::utc_text(series.start);
  document["step_s"] = series.step.count();
  Json values = Json::array();
  for (std::size_t i = 0; i < series.size(); ++i) {
    values.push_back({{"start", carbon::utc_text(series.start_of(i))},
                      {"grams_per_kwh", number_json(series.values[i])},
                      {"estimated", series.estimated[i] != 0},
                      {"fetched_at", fetched_json(history.fetched_at[i])}});
  }
  document["values"] = std::move(values);
  document["method"] = view.method;
  document["notes"] = history.notes;
  return json_text(document);
}

/// Returns rows of time,grams_per_kwh,estimated,fetched_at, with the label as comments.
std::string history_csv(const SourceView& view, const carbon::LabelledHistory& history) {
  const carbon::IntensitySeries& series = history.series;
  std::string text = csv_head(view, series) + "time,grams_per_kwh,estimated,fetched_at\n";
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::int64_t at = history.fetched_at[i];
    text += carbon::utc_text(series.start_of(i)) + "," +
            (series.known(i) ? shortest(series.values[i]) : "") + "," +
            (series.estimated[i] != 0 ? "true" : "false") + "," +
            (at != 0 ? carbon::utc_text(carbon::UtcTime{at}) : "") + "\n";
  }
  return text;
}

std::string forecast_text(const SourceView& view, const carbon::LabelledForecast& forecast,
                          bool coloured) {
  const carbon::IntensitySeries& series = forecast.expected;
  std::string text = painted(view.source, Paint::kBold, coloured) + ": " +
                     std::string(text_of(series.kind)) + "\n" + ladder_text(forecast.ladder) +
                     "issued " + minute_text(forecast.issued_at) + " UTC\n" + constant_text(view);
  Table table = Table::of({"UTC", "g/kWh"});
  const bool intervals = !forecast.lower.empty();
  if (intervals) table.columns.push_back({.heading = "80 % interval"});
  for (std::size_t i = 0; i < series.size(); ++i) {
    const bool has_interval = intervals && std::isfinite(forecast.lower[i]);
    table.add({minute_text(series.start_of(i)), grams_text(series.values[i]),
               has_interval ? grams_text(forecast.lower[i]) + " to " + grams_text(forecast.upper[i])
                            : ""});
  }
  text += table.text(false);
  return text + notes_text(view, forecast.notes);
}

std::string forecast_json(const SourceView& view, const carbon::LabelledForecast& forecast) {
  const carbon::IntensitySeries& series = forecast.expected;
  Json document = head_json(view, series.kind, series.zone, series.source);
  document["ladder"] = carbon::text_of(forecast.ladder);
  document["control_allowed"] = carbon::carbon_control_allowed(forecast.ladder);
  document["issued_at"] = carbon::utc_text(forecast.issued_at);
  document["fetched_at"] = carbon::utc_text(forecast.fetched_at);
  document["step_s"] = series.step.count();
  Json values = Json::array();
  for (std::size_t i = 0; i < series.size(); ++i) {
    const bool interval = !forecast.lower.empty();
    values.push_back({{"start", carbon::utc_text(series.start_of(i))},
                      {"grams_per_kwh", number_json(series.values[i])},
                      {"lower", interval ? number_json(forecast.lower[i]) : Json(nullptr)},
                      {"upper", interval ? number_json(forecast.upper[i]) : Json(nullptr)}});
  }
  document["values"] = std::move(values);
  document["method"] = view.method;
  document["notes"] = forecast.notes;
  return json_text(document);
}

/// Returns rows of time,grams_per_kwh,lower,upper.
std::string forecast_csv(const SourceView& view, const carbon::LabelledForecast& forecast) {
  const carbon::IntensitySeries& series = forecast.expected;
  std::string text = csv_head(view, series) + "# " + std::string(carbon::text_of(forecast.ladder)) +
                     ", issued " + carbon::utc_text(forecast.issued_at) + "\n" +
                     "time,grams_per_kwh,lower,upper\n";
  const auto cell = [](const std::vector<double>& values, std::size_t i) {
    return i < values.size() && std::isfinite(values[i]) ? shortest(values[i]) : std::string();
  };
  for (std::size_t i = 0; i < series.size(); ++i) {
    text += carbon::utc_text(series.start_of(i)) + "," + cell(series.values, i) + "," +
            cell(forecast.lower, i) + "," + cell(forecast.upper, i) + "\n";
  }
  return text;
}

SourceView view_of(const SourceArguments& arguments, const carbon::CarbonSource& source) {
  return {.source = arguments.text, .identity = source.identity(), .method = source.method()};
}

Result<Outcome> run_now(const SourceArguments& arguments, Console& console) {
  const auto source = HARPE_TRY(open_source(arguments));
  const carbon::LabelledIntensity current = HARPE_TRY(source->current());
  const SourceView view = view_of(arguments, *source);
  return Outcome{.text = current_text(view, current, console.colour_out),
                 .json = current_json(view, current)};
}

struct HistoryArguments {
  SourceArguments source;
  std::optional<carbon::UtcTime> from, to;
  std::string csv;
};

Result<Outcome> run_history(const HistoryArguments& arguments) {
  const auto source = HARPE_TRY(open_source(arguments.source));
  const carbon::UtcTime now = carbon::utc_clock()();
  const carbon::UtcTime to = arguments.to.value_or(now);
  const carbon::UtcTime from = arguments.from.value_or(to - carbon::whole_hours(24));
  const carbon::LabelledHistory history = HARPE_TRY(source->history(from, to));
  const SourceView view = view_of(arguments.source, *source);
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, history_csv(view, history)));
  return Outcome{.text = history_text(view, history), .json = history_json(view, history)};
}

struct ForecastArguments {
  SourceArguments source;
  carbon::WholeSeconds horizon{24 * 3600};
  std::string csv;
};

Result<carbon::WholeSeconds> parse_horizon(std::string_view text) {
  const Seconds time = HARPE_TRY(parse_seconds(text));
  if (time.value < 3600 || time.value > 96 * 3600) {
    return Error::invalid("expected 1 h to 96 h");
  }
  return carbon::WholeSeconds(static_cast<std::int64_t>(time.value));
}

Result<Outcome> run_forecast(const ForecastArguments& arguments, Console& console) {
  const auto source = HARPE_TRY(open_source(arguments.source));
  const carbon::LabelledForecast forecast = HARPE_TRY(source->forecast(arguments.horizon));
  const SourceView view = view_of(arguments.source, *source);
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, forecast_csv(view, forecast)));
  return Outcome{.text = forecast_text(view, forecast, console.colour_out),
                 .json = forecast_json(view, forecast)};
}

}  // namespace

void add_carbon_now_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<SourceArguments>();
  CLI::App& app = commands.add(
      carbon, "now",
      "the present carbon intensity of electricity\n"
      "Queries a provider, at most as often as its data change, and caches the values in "
      "~/.cache/harpe/carbon (HARPE_CARBON_CACHE; off: no cache). If the provider does not answer, "
      "the number is a value of the last hours, a forecast made earlier, the value of a week ago, "
      "or the mean in the options of the source; the output names its origin. Tokens are read from "
      "the environment or from ~/.config/harpe: see docs/carbon-sources.md.",
      "harpe carbon now uk:13\n"
      "harpe carbon now 'electricity-maps:DE?mean=381' --json\n"
      "harpe carbon now entsoe:10Y1001A1001A82H",
      [arguments](Console& console) { return run_now(*arguments, console); });
  add_source_options(app, *arguments);
}

void add_carbon_history_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App& app = commands.add(
      carbon, "history",
      "the carbon intensity of past hours\n"
      "Reads the values from the cache if it has all of them, otherwise from the provider. The "
      "provider's terms define the permitted use of its data; most do not allow passing them on.",
      "harpe carbon history uk --from 2026-01-01 --to 2026-01-08 --csv uk.csv\n"
      "harpe carbon history electricity-maps:DE --json",
      [arguments](Console&) { return run_history(*arguments); });
  add_source_options(app, arguments->source);
  add_parsed(app, "--from", "TIME", "Begin, in UTC (default: 24 h before the end)", arguments->from,
             parse_time_option);
  add_parsed(app, "--to", "TIME", "End, in UTC (default: now)", arguments->to, parse_time_option);
  add_text(app, "--csv", "FILE", "CSV file of all values and their fetch times", arguments->csv);
}

void add_carbon_forecast_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<ForecastArguments>();
  CLI::App& app = commands.add(
      carbon, "forecast",
      "the carbon intensity of the coming hours\n"
      "Prints the provider's forecast. If there is none, prints Harpe's own, from four weeks of "
      "history, with an interval that contains 80 % of the actual values (see harpe carbon "
      "backtest); with less than two days of history, the newest value.",
      "harpe carbon forecast uk --horizon 48h\n"
      "harpe carbon forecast electricity-maps:DE --csv forecast.csv --json",
      [arguments](Console& console) { return run_forecast(*arguments, console); });
  add_source_options(app, arguments->source);
  add_parsed(app, "--horizon", "TIME", "Length of the forecast, 1h to 96h (default 24h)",
             arguments->horizon, parse_horizon);
  add_text(app, "--csv", "FILE", "CSV file of all values and their intervals", arguments->csv);
}

}  // namespace harpe::command
