#pragma once
/// \file
/// The `harpe-agent` command: the daemon of a node as a program of its own, so that what runs with
/// privileges has no solver, no database and no HTTP client in it.

#include <memory>

#include "harpe/command/command/command.h"

namespace harpe::command {

/// The command line of `harpe-agent`.
std::unique_ptr<Commands> agent_commands();

}  // namespace harpe::command
