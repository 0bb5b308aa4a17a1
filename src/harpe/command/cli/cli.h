#pragma once
/// \file
/// The `harpe` command: its subcommands beside those that plan.

#include <string>
#include <vector>

#include "harpe/command/command/command.h"

namespace harpe {

// One function a subcommand, each in the file of its name.
void add_devices_command(Commands& commands);
void add_run_command(Commands& commands);
void add_demo_command(Commands& commands);
void add_profile_measure_command(Commands& commands);  ///< below `profile`
void add_carbon_report_command(Commands& commands);    ///< below `carbon`
void add_monitor_command(Commands& commands);
void add_switch_latency_command(Commands& commands);
void add_agent_command(Commands& commands);
void add_lab_command(Commands& commands);
void add_serve_command(Commands& commands);
void add_clock_command(Commands& commands);
void add_limit_command(Commands& commands);
void add_job_command(Commands& commands);
void add_batch_size_command(Commands& commands);
void add_completion_command(Commands& commands);

/// The subcommand that is a program of its own, for experiments.
inline constexpr const char* kLab = "lab";
/// Replaces this process by `harpe-lab` with the arguments after `lab`.
/// \returns  only if that program cannot be started: the reason, and which package has it
/// \param given  arguments of `harpe`, beginning with `lab`
Error become_lab(const std::vector<std::string>& given);

/// Runs `harpe` with these arguments; returns the exit status. Nothing is thrown.
int run_harpe(const std::vector<std::string>& arguments, Console& console);

}  // namespace harpe
