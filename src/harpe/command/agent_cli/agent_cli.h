#pragma once
/// \file
/// The `harpe-agent` command: the daemon of a node as a separate program, so that the privileged
/// program contains no solver, no database and no HTTP client.

#include <memory>

#include "harpe/command/command/command.h"

namespace harpe::command {

/// Returns the command line of `harpe-agent`.
std::unique_ptr<Commands> agent_commands();

}  // namespace harpe::command
