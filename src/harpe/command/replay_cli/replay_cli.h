#pragma once
/// \file
/// `harpe replay`: optimizers of one job driven over what was recorded, without GPUs.

#include "harpe/command/command/command.h"

namespace harpe {

/// `replay` with its subcommands.
void add_replay_command(Commands& commands);

// One function a subcommand of `replay`, each in the file of its name.
void add_replay_power_limit_command(Commands& commands, CLI::App& replay);
void add_replay_groups_command(Commands& commands, CLI::App& replay);
void add_replay_zeus_command(Commands& commands, CLI::App& replay);

}  // namespace harpe
