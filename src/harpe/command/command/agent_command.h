#pragma once
/// \file
/// The command line of a node's agent, shared by `harpe-agent` and `harpe agent`. Their actions
/// differ: only the first contains the daemon.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harpe/command/command/command.h"
#include "harpe/command/command/issue_token.h"

namespace harpe::command {

/// One option: "--tcp ADDRESS:PORT" and the key `tcp` of the configuration file.
struct AgentOptionHelp {
  const char* name;
  const char* value;  ///< "" for a flag
  const char* help;
};
const std::vector<AgentOptionHelp>& agent_option_table();

/// Text of each option by its name.
using AgentOptionValues = std::map<std::string, std::string>;

/// The values from the command line, then from its file of options.
struct AgentArguments {
  CLI::App* command = nullptr;  ///< command that reads them
  AgentOptionValues values;
  std::string config;  ///< path of that file (option_file.h)
  TokenRequest token;  ///< of `token issue`
};

std::string agent_description();
/// \param name  of the command: "harpe agent"
std::string agent_examples(const std::string& name);

/// Adds the options of the agent to `agent`, and below it the commands for its tokens.
/// \param issue  the action of `token issue`
void add_agent_options(Commands& commands, CLI::App& agent,
                       const std::shared_ptr<AgentArguments>& arguments, Action issue);

}  // namespace harpe::command
