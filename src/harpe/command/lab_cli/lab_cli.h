#pragma once
/// \file
/// The `harpe-lab` command: experiments, as a separate program that operators do not need.

#include <memory>
#include <string>

#include "harpe/command/command/command.h"

namespace harpe::command {

// One function per subcommand, each in the file of that name.
void add_emulate_command(Commands& commands);
void add_reproduce_command(Commands& commands);
void add_replay_command(Commands& commands);              ///< with its subcommands
void add_carbon_experiment_commands(Commands& commands);  ///< `carbon` with its subcommands

// Below `replay`.
void add_replay_power_limit_command(Commands& commands, CLI::App& replay);
void add_replay_groups_command(Commands& commands, CLI::App& replay);
void add_replay_zeus_command(Commands& commands, CLI::App& replay);
// Below `carbon`.
void add_carbon_backtest_command(Commands& commands, CLI::App& carbon);
void add_carbon_simulate_command(Commands& commands, CLI::App& carbon);

/// Returns the command line of `harpe-lab`.
/// \param name  of the program in help and errors: "harpe" if `harpe replay` became this program
std::unique_ptr<Commands> lab_commands(const std::string& name = "harpe-lab");

}  // namespace harpe::command
