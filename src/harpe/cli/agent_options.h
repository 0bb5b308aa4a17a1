#pragma once
/// \file
/// Options of `harpe agent`, from the command line and from a configuration file with the same
/// names.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/agent/server.h"
#include "harpe/base/result.h"

namespace harpe {

/// One option: "--tcp ADDRESS:PORT" and the key `tcp`.
struct AgentOptionHelp {
  const char* name;
  const char* value;  ///< "" for a flag
  const char* help;
};
const std::vector<AgentOptionHelp>& agent_option_table();

/// Text of each option by its name.
using AgentOptionValues = std::map<std::string, std::string>;

/// Reads a configuration file (TOML): an option a line, without its dashes. All faults at once.
Result<AgentOptionValues> parse_agent_config(std::string_view text, const std::string& file);

struct AgentSetup {
  AgentOptions options;
  std::string policy, simulation;
  bool socket_named = false;  ///< by the user
};
/// Reads the values; what is not given has its default. All faults at once.
Result<AgentSetup> agent_setup(const AgentOptionValues& values);

}  // namespace harpe
