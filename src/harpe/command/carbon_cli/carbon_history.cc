#include <memory>
#include <optional>

#include "harpe/base/file.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/intensity_view.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/command/options.h"

namespace harpe {
namespace {

struct HistoryArguments {
  SourceArguments source;
  std::optional<UtcTime> from, to;
  std::string csv;
};

Result<Outcome> run_history(const HistoryArguments& arguments) {
  const auto source = HARPE_TRY(open_source(arguments.source));
  const UtcTime now = utc_clock()();
  const UtcTime to = arguments.to.value_or(now);
  const UtcTime from = arguments.from.value_or(to - whole_hours(24));
  const LabelledHistory history = HARPE_TRY(source->history(from, to));
  const SourceView view{
      .source = arguments.source.text, .identity = source->identity(), .method = source->method()};
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, history_csv(view, history)));
  return Outcome{.text = history_text(view, history), .json = history_json(view, history)};
}

}  // namespace

void add_carbon_history_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App& app = commands.add(
      carbon, "history",
      "the carbon intensity of past hours\n"
      "Takes it from the cache where all of it is there, else from the provider, whose terms say "
      "what may be done with it; most forbid to hand it on.",
      "harpe carbon history uk --from 2026-01-01 --to 2026-01-08 --csv uk.csv\n"
      "harpe carbon history electricity-maps:DE --json",
      [arguments](Console&) { return run_history(*arguments); });
  add_source_options(app, arguments->source);
  add_parsed(app, "--from", "TIME", "Begin, in UTC (default: 24 h before the end)", arguments->from,
             parse_time_option);
  add_parsed(app, "--to", "TIME", "End, in UTC (default: now)", arguments->to, parse_time_option);
  add_text(app, "--csv", "FILE", "Every value, with when it was fetched", arguments->csv);
}

}  // namespace harpe
