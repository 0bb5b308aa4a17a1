#pragma once
/// \file
/// The argument and options of subcommands that ask a source of carbon intensity.

#include <memory>
#include <string>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/open_source.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe::command {

struct SourceArguments {
  std::string text;
  carbon::SourceSpecification source;
  bool offline = false;
};

/// SOURCE alone. `arguments` must outlive the command line.
void add_source_argument(CLI::App& app, const std::string& help, SourceArguments& arguments);
/// SOURCE and --offline. `arguments` must outlive the command line.
void add_source_options(CLI::App& app, SourceArguments& arguments);

/// With the clocks, environment and cache of this process.
Result<std::unique_ptr<carbon::CarbonSource>> open_source(const SourceArguments& arguments);
/// What it is opened in.
carbon::SourceEnvironment source_environment(const SourceArguments& arguments);

/// "2026-01-31" or "2026-01-31T13:00Z", for `add_parsed`.
Result<std::optional<carbon::UtcTime>> parse_time_option(std::string_view text);

}  // namespace harpe::command
