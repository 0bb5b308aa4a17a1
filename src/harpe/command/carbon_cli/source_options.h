#pragma once
/// \file
/// The argument and options of subcommands that read a source of carbon intensity.

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

/// Adds SOURCE only. `arguments` must outlive the command line.
void add_source_argument(CLI::App& app, const std::string& help, SourceArguments& arguments);
/// Adds SOURCE and --offline. `arguments` must outlive the command line.
void add_source_options(CLI::App& app, SourceArguments& arguments);

/// Opens the source with the clocks, environment and cache of this process.
Result<std::unique_ptr<carbon::CarbonSource>> open_source(const SourceArguments& arguments);
/// Returns the environment in which the source is opened.
carbon::SourceEnvironment source_environment(const SourceArguments& arguments);

/// Parses "2026-01-31" or "2026-01-31T13:00Z". For `add_parsed`.
Result<std::optional<carbon::UtcTime>> parse_time_option(std::string_view text);

}  // namespace harpe::command
