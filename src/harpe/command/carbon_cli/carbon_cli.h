#pragma once
/// \file
/// `harpe carbon`: carbon intensities over time, from providers and files.

#include "harpe/command/command/command.h"

namespace harpe::command {

/// Adds `carbon` with its subcommands.
void add_carbon_command(Commands& commands);

// One function per subcommand of `carbon`, each in the file of that name.
void add_carbon_now_command(Commands& commands, CLI::App& carbon);
void add_carbon_history_command(Commands& commands, CLI::App& carbon);
void add_carbon_forecast_command(Commands& commands, CLI::App& carbon);
void add_carbon_prices_command(Commands& commands, CLI::App& carbon);

}  // namespace harpe::command
