#pragma once
/// \file
/// Help and manual pages, both from the same description of the commands.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// One option or positional argument in help.
struct OptionHelp {
  std::vector<std::string> names;  ///< "--out", "-o"; the bare name of a positional argument
  std::string value;               ///< "FILE"; empty for a flag
  std::string description;
  std::string group;
  bool positional = false;
  bool required = false;
};

/// Returns the options of a command, without hidden ones (options without a group).
std::vector<OptionHelp> option_help(const CLI::App& command);
/// Returns the direct subcommands, in the order they were added.
std::vector<const CLI::App*> subcommands(const CLI::App& command);
/// Returns, for example, "harpe schedule show".
std::string full_name(const CLI::App& command);
/// Returns the first line of a description.
std::string brief(const CLI::App& command);
/// Returns the subcommand of `root` with these words ("schedule", "show"). Errors name the nearest.
Result<const CLI::App*> find_command(const CLI::App& root, const std::vector<std::string>& words);

/// Returns the output of `--help`, with at most 80 columns.
std::string help_text(const CLI::App& command);
/// Returns the path of the pages that programs name docs/..., for the end of a program's help;
/// empty if they are not below the folder of the executable at `own` (a wheel) or below its prefix.
std::string documentation_text(const std::filesystem::path& own);
/// Returns the manual page (section 1) in roff.
std::string man_page(const CLI::App& command);

// Errors of a command line in Harpe's words: the parser's own texts never reach a user. Include
// only in `.cc` files.

/// The name, in help and errors, of the command line that follows `--`.
inline constexpr const char* kFollowingCommand = "COMMAND";

/// Refuses `--name=` without a value, because the parser would take the next word as the value, and
/// a value for a switch.
Status check_values(const CLI::App& root, const std::vector<std::string>& arguments);

/// Returns the error of an exception of the parser, with all unknown words and all missing options.
Error command_line_error(Commands& commands, const CLI::ParseError& error);

}  // namespace harpe::command
