#pragma once
/// \file
/// Options from a configuration file. It may set every option of a command under its own name,
/// without the dashes; the command line overrides the file.
///
/// TOML of one level: `socket = "/run/harpe/agent.sock"` for `--socket /run/harpe/agent.sock`,
/// `insecure = true` for a flag, a list for an option that may be repeated. Values are parsed by
/// the same readers as on the command line. Relative paths refer to the working directory, as on
/// the command line. Include only in `.cc` files.

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::command {

/// The position of an option's value in the file.
struct OptionPosition {
  int line = 0, column = 0;
};
/// Positions of the options from the file, by name without dashes.
using OptionPositions = std::map<std::string, OptionPosition>;

/// Adds `--config FILE`, which cannot be set in the file itself.
CLI::Option* add_config_option(CLI::App& command, std::string& file);

/// Sets the options of this text that were not on the command line. Must be called after the
/// command line was read. Fails with all errors of the text, by line and column: unknown options
/// with the nearest known one, an option set under two names, and values that the option refuses.
/// Then some targets of options may have been set, and the caller must exit. O(text x options).
Result<OptionPositions> take_options(CLI::App& command, std::string_view text,
                                     const std::string& file);

/// Sets the options of a file of at most 1 MiB; does nothing if `file` is empty.
Result<OptionPositions> take_option_file(CLI::App& command, const std::string& file);

}  // namespace harpe::command
