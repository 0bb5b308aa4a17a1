#include <memory>

#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/intensity_view.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/command/options.h"

namespace harpe {
namespace {

Result<Outcome> run_now(const SourceArguments& arguments, Console& console) {
  const auto source = HARPE_TRY(open_source(arguments));
  const LabelledIntensity current = HARPE_TRY(source->current());
  const SourceView view{
      .source = arguments.text, .identity = source->identity(), .method = source->method()};
  return Outcome{.text = current_text(view, current, console.colour_out),
                 .json = current_json(view, current)};
}

}  // namespace

void add_carbon_now_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<SourceArguments>();
  CLI::App& app = commands.add(
      carbon, "now",
      "the carbon intensity of electricity at present\n"
      "Asks a provider, no more often than its data change, and keeps what it says in "
      "~/.cache/harpe/carbon (HARPE_CARBON_CACHE; off: no cache). Where it does not answer, the "
      "number comes from the last hours, from a forecast made earlier, from a week ago or from "
      "the mean that the source has as its option, and says so. Tokens come from the environment "
      "or from ~/.config/harpe: docs/carbon-sources.md.",
      "harpe carbon now uk:13\n"
      "harpe carbon now 'electricity-maps:DE?mean=381' --json\n"
      "harpe carbon now entsoe:10Y1001A1001A82H",
      [arguments](Console& console) { return run_now(*arguments, console); });
  add_source_options(app, *arguments);
}

}  // namespace harpe
