#pragma once
/// \file
/// How a subcommand is described and run.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/cli/console.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace harpe {

/// What a subcommand has to say when it succeeded: for people, or as one JSON document.
struct Outcome {
  std::string text;
  std::string json;
  int status = 0;  ///< exit status
};

/// Runs a subcommand whose options have been read.
using Action = std::function<Result<Outcome>(Console&)>;

/// The command line: the root command with its subcommands, and what runs for each.
class Commands {
 public:
  Commands();
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  CLI::App& root() { return *root_; }
  const CLI::App& root() const { return *root_; }

  /// A subcommand of `parent`. The first line of `description` says in a few words what it does;
  /// `examples` has one command line a line. With an action it also takes `--json`.
  CLI::App& add(CLI::App& parent, const std::string& name, const std::string& description,
                const std::string& examples, Action action = {});

  /// Lets `app` (a subcommand of the root) take a command line of others after `--`, whatever words
  /// it has. `app` gets an entry in its help.
  void let_command_follow(CLI::App& app, const std::string& help);
  /// Cuts `--` and what follows off the arguments, where the subcommand they name takes it.
  void take_following_command(std::vector<std::string>& arguments);
  /// What followed `--`.
  const std::vector<std::string>& following_command() const { return following_; }

  /// The innermost subcommand that was given on the command line (the root when there is none).
  CLI::App& chosen();
  /// What runs for a subcommand; empty when it only groups others.
  Action action(const CLI::App& command) const;

 private:
  std::unique_ptr<CLI::App> root_;
  std::vector<std::pair<const CLI::App*, Action>> actions_;
  std::vector<std::string> with_command_;  ///< names of subcommands
  std::vector<std::string> following_;
};

// One function a subcommand, each in the file of its name.
void add_plan_command(Commands& commands);
void add_schedule_command(Commands& commands);
void add_verify_command(Commands& commands);
void add_profile_command(Commands& commands);
void add_synth_command(Commands& commands);
void add_predict_command(Commands& commands);
void add_devices_command(Commands& commands);
void add_run_command(Commands& commands);
void add_monitor_command(Commands& commands);
void add_switch_latency_command(Commands& commands);
void add_agent_command(Commands& commands);
void add_serve_command(Commands& commands);
void add_clock_command(Commands& commands);
void add_limit_command(Commands& commands);
void add_job_command(Commands& commands);
void add_completion_command(Commands& commands);
void add_man_command(Commands& commands);

/// Runs the command line; returns the exit status. Nothing is thrown.
int run_command(const std::vector<std::string>& arguments, Console& console);

}  // namespace harpe
