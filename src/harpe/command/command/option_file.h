#pragma once
/// \file
/// Options from a configuration file: every option of a command may stand in it under its own name,
/// without the dashes, and what the command line gives comes before it.
///
/// TOML of one level: `socket = "/run/harpe/agent.sock"` for `--socket /run/harpe/agent.sock`,
/// `insecure = true` for a flag, a list for an option that may be given several times. Values go
/// through the readers that those of the command line go through. Relative paths count from where
/// the command runs, as on the command line. Only for `.cc` files.

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::command {

/// Where the value of an option stands in the file.
struct OptionPosition {
  int line = 0, column = 0;
};
/// Those that came from the file, by name without dashes.
using OptionPositions = std::map<std::string, OptionPosition>;

/// Adds `--config FILE`, which the file itself cannot have.
CLI::Option* add_config_option(CLI::App& command, std::string& file);

/// Gives `command`, after its command line was read, the options of this text that were not on it.
/// Fails with everything that is wrong with the text, by line and column: unknown options with the
/// nearest that is known, an option twice under two names, values that the option refuses. Some
/// targets of options may have been written then; the caller ends. O(text x options).
Result<OptionPositions> take_options(CLI::App& command, std::string_view text,
                                     const std::string& file);

/// The same of a file of at most 1 MiB; nothing where no file was named ("").
Result<OptionPositions> take_option_file(CLI::App& command, const std::string& file);

}  // namespace harpe::command
