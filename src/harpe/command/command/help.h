#pragma once
/// \file
/// Help and man pages, both from the same description of the commands.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// One option or positional argument, as help shows it.
struct OptionHelp {
  std::vector<std::string> names;  ///< "--out", "-o"; the bare name of a positional argument
  std::string value;               ///< "FILE"; empty for a flag
  std::string description;
  std::string group;
  bool positional = false;
  bool required = false;
};

std::vector<OptionHelp> option_help(const CLI::App& command);
/// Direct subcommands, in the order they were added.
std::vector<const CLI::App*> subcommands(const CLI::App& command);
/// "harpe schedule show".
std::string full_name(const CLI::App& command);
/// The first line of a description.
std::string brief(const CLI::App& command);
/// The subcommand of `root` named by words ("schedule", "show"), or an error that names the
/// nearest.
Result<const CLI::App*> find_command(const CLI::App& root, const std::vector<std::string>& words);

/// What `--help` prints: at most 80 columns.
std::string help_text(const CLI::App& command);
/// Where the pages are that programs name docs/..., as the end of a program's help; empty where
/// they are not below the folder of the executable at `own` (a wheel) or its prefix.
std::string documentation_text(const std::filesystem::path& own);
/// The manual page (section 1) in roff.
std::string man_page(const CLI::App& command);

// What is wrong with a command line, in words of Harpe: the parser's own texts reach no user. Only
// for `.cc` files.

/// The name of the command line that follows `--`, in help and errors.
inline constexpr const char* kFollowingCommand = "COMMAND";

/// Refuses `--name=` without a value, for which the parser would take the next word, and a value
/// for a switch.
Status check_values(const CLI::App& root, const std::vector<std::string>& arguments);

/// What the parser threw, with all words that no option takes and all options that are missing.
Error command_line_error(Commands& commands, const CLI::ParseError& error);

}  // namespace harpe::command
