#include <memory>

#include "harpe/base/file.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/intensity_view.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/quantity_text.h"

namespace harpe {
namespace {

struct ForecastArguments {
  SourceArguments source;
  WholeSeconds horizon{24 * 3600};
  std::string csv;
};

Result<WholeSeconds> parse_horizon(std::string_view text) {
  const Seconds time = HARPE_TRY(parse_seconds(text));
  if (time.value < 3600 || time.value > 96 * 3600) {
    return Error::invalid("expected 1 h to 96 h");
  }
  return WholeSeconds(static_cast<std::int64_t>(time.value));
}

Result<Outcome> run_forecast(const ForecastArguments& arguments, Console& console) {
  const auto source = HARPE_TRY(open_source(arguments.source));
  const LabelledForecast forecast = HARPE_TRY(source->forecast(arguments.horizon));
  const SourceView view{
      .source = arguments.source.text, .identity = source->identity(), .method = source->method()};
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, forecast_csv(view, forecast)));
  return Outcome{.text = forecast_text(view, forecast, console.colour_out),
                 .json = forecast_json(view, forecast)};
}

}  // namespace

void add_carbon_forecast_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<ForecastArguments>();
  CLI::App& app = commands.add(
      carbon, "forecast",
      "the carbon intensity of the hours to come\n"
      "The provider's forecast; where there is none, Harpe's own over four weeks of history, with "
      "an interval that holds 80 % of what comes (harpe carbon backtest); with less than two days "
      "of history, the newest value.",
      "harpe carbon forecast uk --horizon 48h\n"
      "harpe carbon forecast electricity-maps:DE --csv forecast.csv --json",
      [arguments](Console& console) { return run_forecast(*arguments, console); });
  add_source_options(app, arguments->source);
  add_parsed(app, "--horizon", "TIME", "How far ahead, 1h to 96h (default 24h)", arguments->horizon,
             parse_horizon);
  add_text(app, "--csv", "FILE", "Every value, with its interval", arguments->csv);
}

}  // namespace harpe
