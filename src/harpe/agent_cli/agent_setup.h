#pragma once
/// \file
/// The agent's options, from the command line and from a configuration file with the same names.

#include <string>
#include <string_view>

#include "harpe/agent/server.h"
#include "harpe/base/result.h"
#include "harpe/command/agent_command.h"

namespace harpe {

/// Reads a configuration file (TOML): an option a line, without its dashes. All errors at once.
Result<AgentOptionValues> parse_agent_config(std::string_view text, const std::string& file);

struct AgentSetup {
  AgentOptions options;
  std::string policy, simulation;
  bool socket_named = false;  ///< by the user
};
/// Reads the values; what is not given has its default. All errors at once.
Result<AgentSetup> agent_setup(const AgentOptionValues& values);

}  // namespace harpe
