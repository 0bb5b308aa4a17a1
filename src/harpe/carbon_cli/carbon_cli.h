#pragma once
/// \file
/// `harpe carbon`: carbon intensities over time, read from files.

#include "harpe/command/command.h"

namespace harpe {

/// `carbon` with its subcommands.
void add_carbon_command(Commands& commands);

// One function a subcommand of `carbon`, each in the file of its name.
void add_carbon_backtest_command(Commands& commands, CLI::App& carbon);

}  // namespace harpe
