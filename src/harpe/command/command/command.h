#pragma once
/// \file
/// How the command line of a program is described, read and run.

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

/// What a subcommand has to say when it succeeded: for people, or as one JSON document.
struct Outcome {
  std::string text;
  std::string json;
  int status = 0;  ///< exit status
};

/// Runs a subcommand whose options have been read.
using Action = std::function<Result<Outcome>(Console&)>;

/// The command line of a program: the root command with its subcommands, and what runs for each.
class Commands {
 public:
  /// The root command alone, described as a subcommand is (see add()).
  Commands(const std::string& name, const std::string& description, const std::string& examples,
           Action action = {});
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  CLI::App& root() { return *root_; }
  const CLI::App& root() const { return *root_; }

  /// A subcommand of `parent`. The first line of `description` says in a few words what it does;
  /// `examples` has one command line a line. With an action it also takes `--json`.
  CLI::App& add(CLI::App& parent, const std::string& name, const std::string& description,
                const std::string& examples, Action action = {});

  /// Lets `app` take a command line of others after `--`, whatever words it has. `app` gets an
  /// entry in its help.
  void let_command_follow(CLI::App& app, const std::string& help);
  /// Cuts `--` and what follows off the arguments, where the subcommand they name takes it.
  void take_following_command(std::vector<std::string>& arguments);
  /// What followed `--`.
  const std::vector<std::string>& following_command() const { return following_; }
  /// Standard output belongs to the command that follows `app`: Harpe's own JSON goes to standard
  /// error.
  void leave_output_to_command(const CLI::App& app);
  /// Whether it does so with these arguments.
  bool leaves_output(const std::vector<std::string>& arguments) const;

  /// The innermost subcommand that was given on the command line (the root when there is none).
  CLI::App& chosen();
  /// What runs for a subcommand; empty when it only groups others.
  Action action(const CLI::App& command) const;

  /// Which program has the subcommands that this one lacks, and how to get it; empty: there is
  /// none.
  void set_rest(std::string where) { rest_ = std::move(where); }
  const std::string& rest() const { return rest_; }

  /// The arguments of this run as they were given, for an action that hands them on.
  const std::vector<std::string>& arguments() const { return arguments_; }
  void keep_arguments(std::vector<std::string> arguments) { arguments_ = std::move(arguments); }
  /// The command line of this run as it can be typed again, without --json and the options
  /// `outputs`, whose values say where to write, and with passwords in URLs replaced by "...": for
  /// what a file says of its making.
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

/// "harpe 0.9.0", of whichever program this is.
std::string program_version(const Commands& commands);

/// Describes the command line of a program.
using MakeCommands = std::function<std::unique_ptr<Commands>()>;

/// Runs a program with these arguments; returns the exit status. Nothing is thrown.
int run_program(const MakeCommands& make, const std::vector<std::string>& arguments,
                Console& console);

}  // namespace harpe::command
