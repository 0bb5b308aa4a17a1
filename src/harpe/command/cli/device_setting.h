#pragma once
/// \file
/// Setting GPUs from the command line: through the agent, under a lease that outlives the command,
/// or directly. Shared by `harpe clock` and `harpe limit`.

#include <string>

#include "harpe/command/cli/device_options.h"
#include "harpe/command/command/command.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {

struct SettingArguments {
  DeviceArguments devices;
  std::string socket;  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the usual one
  Seconds duration{3600};
  bool direct = false;
};

/// What is to be set, or restored.
struct WantedSetting {
  node::Setting setting;  ///< what to apply; for a reset, what `--direct` applies
  bool reset = false;     ///< restore what the command line has set of this control
  std::string command;    ///< "harpe clock"
};

/// Adds `--gpus`, `--simulate`, `--socket`, `--direct` and, for a setting, `--for`.
void add_setting_options(CLI::App& app, SettingArguments& arguments, bool reset);

/// Does all GPUs whatever becomes of one, and says what became of each.
Result<Outcome> run_setting(const SettingArguments& arguments, const WantedSetting& wanted);

/// The part of `run_setting` that goes through the agent (agent_setting.cc).
Result<Outcome> set_through_agent(const SettingArguments& arguments, const WantedSetting& wanted);
/// The command that undoes a setting, with the options that were given: "harpe clock reset --gpus
/// 0".
std::string undo_command(const SettingArguments& arguments, const WantedSetting& wanted);

}  // namespace harpe::command
