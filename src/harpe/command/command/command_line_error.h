#pragma once
/// \file
/// What is wrong with a command line, in words of Harpe: the parser's own texts reach no user. Only
/// for `.cc` files.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// The name of the command line that follows `--`, in help and errors.
inline constexpr const char* kFollowingCommand = "COMMAND";

/// Refuses `--name=` without a value, for which the parser would take the next word, and a value
/// for a switch.
Status check_values(const CLI::App& root, const std::vector<std::string>& arguments);

/// What the parser threw, with all words that no option takes and all options that are missing.
Error command_line_error(Commands& commands, const CLI::ParseError& error);

}  // namespace harpe::command
