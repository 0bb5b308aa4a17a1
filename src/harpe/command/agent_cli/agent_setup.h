#pragma once
/// \file
/// The agent's options, from the texts of the command line and of its configuration file.

#include <string>

#include "harpe/base/result.h"
#include "harpe/command/command/agent_command.h"
#include "harpe/command/command/option_file.h"
#include "harpe/node/agent/server.h"

namespace harpe {

/// Where values came from that were not on the command line; errors name the place.
struct OptionFile {
  std::string name;
  OptionPositions positions;
};

struct AgentSetup {
  AgentOptions options;
  std::string policy, simulation;
  bool socket_named = false;  ///< by the user
};
/// Reads the values; what is not given has its default. All errors at once.
Result<AgentSetup> agent_setup(const AgentOptionValues& values, const OptionFile& file = {});

}  // namespace harpe
