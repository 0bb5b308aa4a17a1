#pragma once
/// \file
/// Description, parsing and execution of the command line of a program.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace harpe::command {

/// The output of a successful subcommand: for people, and as one JSON document.
struct Outcome {
  std::string text;
  std::string json;
  int status = 0;  ///< exit status
};

/// Runs a subcommand whose options have been read.
using Action = std::function<Result<Outcome>(Console&)>;

/// The command line of a program: the root command with its subcommands, and their actions.
class Commands {
 public:
  /// Creates the root command alone. The arguments are as for add().
  Commands(const std::string& name, const std::string& description, const std::string& examples,
           Action action = {});
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  CLI::App& root() { return *root_; }
  const CLI::App& root() const { return *root_; }

  /// Adds a subcommand of `parent`. The first line of `description` is a short summary; `examples`
  /// has one command line per line. With an action the subcommand also takes `--json`.
  CLI::App& add(CLI::App& parent, const std::string& name, const std::string& description,
                const std::string& examples, Action action = {});

  /// Lets `app` take another program's command line after `--`, with any words. Adds an entry to
  /// the help of `app`.
  void let_command_follow(CLI::App& app, const std::string& help);
  /// Removes `--` and the words after it from the arguments, if their subcommand takes them.
  void take_following_command(std::vector<std::string>& arguments);
  /// Returns the words after `--`.
  const std::vector<std::string>& following_command() const { return following_; }
  /// Leaves standard output to the command that follows `app`: Harpe's own JSON goes to standard
  /// error.
  void leave_output_to_command(const CLI::App& app);
  /// Returns true if standard output is left to the command with these arguments.
  bool leaves_output(const std::vector<std::string>& arguments) const;

  /// Returns the innermost subcommand given on the command line (the root if there is none).
  CLI::App& chosen();
  /// Returns the action of a subcommand; empty if it only groups others.
  Action action(const CLI::App& command) const;

  /// Sets the name of the program that has the subcommands which this program lacks, and how to get
  /// it; empty if there is none.
  void set_rest(std::string where) { rest_ = std::move(where); }
  const std::string& rest() const { return rest_; }

  /// Returns the original arguments of this run, for an action that passes them on.
  const std::vector<std::string>& arguments() const { return arguments_; }
  void keep_arguments(std::vector<std::string> arguments) { arguments_ = std::move(arguments); }
  /// Returns the command line of this run in a form that can be typed again, without --json and the
  /// options `outputs`, which name output files, and with passwords in URLs replaced by "...". For
  /// files that state how they were made.
  std::string command_line(std::span<const std::string_view> outputs) const;

 private:
  void describe(CLI::App& app, const std::string& examples, Action action);

  std::unique_ptr<CLI::App> root_;
  std::vector<std::pair<const CLI::App*, Action>> actions_;
  // Subcommands, by the words that name them.
  std::vector<std::vector<std::string>> with_command_, output_left_;
  std::vector<std::string> following_, arguments_;
  std::string rest_;
};

/// Adds the subcommand that prints manual pages of this program.
/// \param example  words of a subcommand: "schedule show"
void add_man_command(Commands& commands, const std::string& example);

/// Returns, for example, "harpe 0.9.0", with the name of this program.
std::string program_version(const Commands& commands);

/// Describes the command line of a program.
using MakeCommands = std::function<std::unique_ptr<Commands>()>;

/// Runs a program with these arguments. Returns the exit status. Does not throw.
int run_program(const MakeCommands& make, const std::vector<std::string>& arguments,
                Console& console);

}  // namespace harpe::command
