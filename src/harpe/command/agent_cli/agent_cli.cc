#include "harpe/command/agent_cli/agent_cli.h"

#include <unistd.h>

#include "harpe/command/agent_cli/agent_setup.h"
#include "harpe/command/command/issue_token.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/option_file.h"
#include "harpe/device/hw/devices.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/server_log.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/server.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe {
namespace {

Result<AgentSetup> read_setup(const AgentArguments& arguments) {
  OptionFile file{.name = arguments.config, .positions = {}};
  if (!file.name.empty()) {
    const std::string text = HARPE_TRY(read_trusted(file.name, 1U << 20));
    file.positions = HARPE_TRY(take_options(*arguments.command, text, file.name));
  }
  return agent_setup(arguments.values, file);
}

Result<Policy> read_policy(const std::string& path) {
  Result<Policy> policy = Policy::read(path);
  if (policy.ok() || policy.error().code != ErrorCode::kIo) return policy;
  Error error = policy.error();
  error.diagnostics.push_back(
      {.message = "the agent does only what a policy allows: write one (harpe agent --help; an "
                  "example comes with Harpe as agent.toml) and name it with --policy"});
  return error;
}

Result<Outcome> run(const AgentArguments& arguments, Console& console) {
  AgentSetup setup = HARPE_TRY(read_setup(arguments));
  DeviceOptions device_options = DeviceOptions::of_environment();
  if (!setup.simulation.empty()) device_options.simulation = setup.simulation;
  if (!device_options.simulation.empty() && !setup.socket_named) {
    return Error::invalid(
        "an agent on simulated GPUs (--simulate, HARPE_SIMULATION) needs a --socket of its own, "
        "such as --socket ./agent.sock: the usual one is for the node's real GPUs");
  }
  Devices devices = HARPE_TRY(open_devices(device_options));
  const auto say = [&, with_time = !stderr_is_journal()](const std::string& line) {
    console.err << log_line("harpe agent", line, with_time) << std::flush;
  };
  for (const BackendState& backend : devices.backends) {
    say(backend.name + ": " + backend.detail);
  }
  if (device_options.simulation.empty() && ::geteuid() != 0) {
    say("not running as root: drivers will most likely refuse to set anything; reading works");
  }
  for (const auto& file :
       {setup.options.controller.audit_log, setup.options.controller.state_file}) {
    if (!file.has_parent_path()) continue;
    HARPE_TRY(usable_directory(file.parent_path()));
  }
  setup.options.version = HARPE_VERSION;
  const std::string how = setup.options.controller.dry_run ? " (dry run: nothing is set)" : "";
  const Status served =
      run_agent(std::move(devices), read_policy(setup.policy), setup.options,
                [&](std::string_view name) { say("listening on " + std::string(name) + how); });
  if (!served.ok()) return served.error();
  return Outcome{.text = "", .json = json_text({{"stopped", true}})};
}

}  // namespace

std::unique_ptr<Commands> agent_commands() {
  const auto arguments = std::make_shared<AgentArguments>();
  auto commands = std::make_unique<Commands>(
      "harpe-agent", agent_description(), agent_examples("harpe-agent"),
      [arguments](Console& console) { return run(*arguments, console); });
  add_agent_options(*commands, commands->root(), arguments, [arguments](Console&) {
    return issue_token(arguments->token, {kGpuControl, kGpuRead, kCpuRead});
  });
  return commands;
}

}  // namespace harpe
