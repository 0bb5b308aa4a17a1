#include "harpe/command/carbon_cli/source_options.h"

#include <unistd.h>

#include <functional>

#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/command/options.h"
#include "harpe/command/input/input_file.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::command {

void add_source_argument(CLI::App& app, const std::string& help, SourceArguments& arguments) {
  const auto read = [&arguments](const std::string& text) {
    auto source = carbon::parse_source(text);
    if (!source.ok()) throw CLI::ValidationError("SOURCE", source.error().text());
    arguments.source = *std::move(source);
    arguments.text = text;
  };
  app.add_option_function<std::string>("SOURCE", read, help)
      ->type_name("SOURCE")
      ->required()
      ->group("Arguments");
}

void add_source_options(CLI::App& app, SourceArguments& arguments) {
  add_source_argument(app,
                      "A number in g/kWh, a country's code (its yearly mean), file:PATH, "
                      "electricity-maps:ZONE, watttime:REGION, uk, uk:REGION or entsoe:EIC",
                      arguments);
  app.add_flag("--offline", arguments.offline, "Use only the cache and files; query no provider");
}

carbon::SourceEnvironment source_environment(const SourceArguments& arguments) {
  carbon::SourceEnvironment environment{.clock = system_clock()};
  environment.read = [](const std::filesystem::path& path) { return read_input_file(path); };
  environment.offline = arguments.offline;
  // Processes that fail together must not retry together.
  environment.seed = mixed(static_cast<std::uint64_t>(::getpid()),
                           static_cast<std::uint64_t>(system_clock().now().ns), 0);
  return environment;
}

Result<std::unique_ptr<carbon::CarbonSource>> open_source(const SourceArguments& arguments) {
  return carbon::open_source(arguments.source, source_environment(arguments));
}

Result<std::optional<carbon::UtcTime>> parse_time_option(std::string_view text) {
  if (const auto time = carbon::parse_utc(text)) return time;
  return Error::invalid("expected a time in UTC such as 2026-01-31 or 2026-01-31T13:00Z, found " +
                        in_quotes(text));
}

}  // namespace harpe::command
