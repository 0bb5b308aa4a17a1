#pragma once
/// \file
/// The `harpe` command: its subcommands other than those for planning.

#include <optional>
#include <string>
#include <vector>

#include "harpe/command/command/command.h"

namespace harpe::command {

// One function per subcommand, each in the file of that name.
void add_devices_command(Commands& commands);
void add_run_command(Commands& commands);
void add_demo_command(Commands& commands);
void add_profile_measure_command(Commands& commands);  ///< below `profile`
void add_carbon_report_command(Commands& commands);    ///< below `carbon`
void add_monitor_command(Commands& commands);
void add_switch_latency_command(Commands& commands);
void add_agent_command(Commands& commands);
void add_lab_commands(Commands& commands);  ///< commands of harpe-lab, below the root and `carbon`
void add_serve_command(Commands& commands);
void add_clock_command(Commands& commands);
void add_limit_command(Commands& commands);
void add_job_command(Commands& commands);
void add_batch_size_command(Commands& commands);
void add_completion_command(Commands& commands);

/// A command line of `harpe` whose command is in the program `harpe-lab`.
struct LabCall {
  std::string name;                    ///< name of the program in help and errors
  std::vector<std::string> arguments;  ///< arguments of harpe-lab
  std::vector<std::string> command;    ///< its words in `harpe`: {"carbon", "simulate"}
};
/// Returns nullopt if the command is in `harpe` itself.
/// \param given  arguments of `harpe`: `lab emulate`, `replay zeus`, `help replay`, `man replay`
std::optional<LabCall> lab_call(const std::vector<std::string>& given);
/// Replaces this process by `harpe-lab`. Returns only if that program cannot be started: the
/// reason, and the package that contains it.
Error become_lab(const LabCall& call);
/// Returns the commands and options of `harpe-lab` in the form of its `man --json`; empty if that
/// program is not installed.
std::string description_of_lab();

/// Runs `harpe` with these arguments. Returns the exit status. Does not throw.
int run_harpe(const std::vector<std::string>& arguments, Console& console);

}  // namespace harpe::command
