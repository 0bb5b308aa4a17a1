#pragma once
/// \file
/// The `harpe-lab` command: experiments, as a program of its own that operators never need.

#include <memory>

#include "harpe/command/command/command.h"

namespace harpe {

// One function a subcommand, each in the file of its name.
void add_emulate_command(Commands& commands);
void add_reproduce_command(Commands& commands);

/// The command line of `harpe-lab`.
std::unique_ptr<Commands> lab_commands();

}  // namespace harpe
