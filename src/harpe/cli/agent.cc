#include <unistd.h>

#include <memory>

#include "harpe/agent/policy.h"
#include "harpe/agent/server.h"
#include "harpe/agent/trusted_file.h"
#include "harpe/base/text.h"
#include "harpe/cli/agent_options.h"
#include "harpe/cli/cli.h"
#include "harpe/command/issue_token.h"
#include "harpe/command/json_output.h"
#include "harpe/command/options.h"
#include "harpe/http/server_socket.h"
#include "harpe/hw/devices.h"
#include "harpe/service/server_log.h"

namespace harpe {
namespace {

struct AgentArguments {
  AgentOptionValues values;
  std::string config;
};

Result<AgentSetup> read_setup(const AgentArguments& arguments) {
  AgentOptionValues values;
  if (!arguments.config.empty()) {
    const std::string text = HARPE_TRY(read_trusted(arguments.config, 1U << 20));
    values = HARPE_TRY(parse_agent_config(text, arguments.config));
  }
  for (const auto& [name, value] : arguments.values) values[name] = value;
  return agent_setup(values);
}

Result<Policy> read_policy(const std::string& path) {
  Result<Policy> policy = Policy::read(path);
  if (policy.ok() || policy.error().code != ErrorCode::kIo) return policy;
  Error error = policy.error();
  error.faults.push_back(
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

// --- Tokens -------------------------------------------------------------------------------------

void add_agent_token_command(Commands& commands, CLI::App& agent) {
  CLI::App& token = commands.add(agent, "token", "tokens for clients that come over TCP",
                                 "harpe agent token issue --signing-key KEY --user grafana \\\n"
                                 "    --scope gpu-read,cpu-read --expires 7d");
  const auto arguments = std::make_shared<TokenRequest>();
  CLI::App& issue = commands.add(
      token, "issue",
      "sign a token\n"
      "Prints a token (JWT, HS256) that names its holder to the agent; the policy says under "
      "`tokens` what the holder may do, within the token's scopes. --json tells its "
      "id, by which an agent's --revoked-tokens refuses it before it expires.",
      "openssl rand -hex 32 > key; chmod 600 key\n"
      "harpe agent token issue --signing-key key --user grafana \\\n"
      "    --scope gpu-read,cpu-read --expires 7d",
      [arguments](Console&) { return issue_token(*arguments, {kGpuControl, kGpuRead, kCpuRead}); });
  add_text(issue, "--signing-key", "FILE",
           "Key to sign with, the first line of the file (mode 600)", arguments->key)
      ->required();
  add_text(issue, "--user", "NAME", "Whom the token names", arguments->user)->required();
  add_text(issue, "--scope", "SCOPES", "What it is for: gpu-control,gpu-read,cpu-read",
           arguments->scopes)
      ->required();
  add_text(issue, "--expires", "DURATION", "How long it lasts: 1h, 7d, never (default: 1h)",
           arguments->expires);
}

}  // namespace

void add_agent_command(Commands& commands) {
  const auto arguments = std::make_shared<AgentArguments>();
  CLI::App& app = commands.add(
      commands.root(), "agent",
      "let unprivileged jobs set clocks and power limits, safely\n"
      "The one privileged daemon of a node. It listens on a Unix socket, does for each user only "
      "what its policy file allows, and restores what was there before when a lease ends, a "
      "client dies, or the agent itself stops or crashes. Zeus's client works with it unchanged "
      "(ZEUSD_SOCK_PATH).",
      "harpe agent --policy /etc/harpe/agent.toml\n"
      "harpe agent --config agent-options.toml --dry-run\n"
      "harpe agent --simulate two-a40.toml --policy agent.toml \\\n"
      "    --socket ./agent.sock",
      [arguments](Console& console) { return run(*arguments, console); });
  add_text(app, "--config", "FILE", "Options from a file: `socket = \"PATH\"` for --socket PATH",
           arguments->config);
  for (const AgentOptionHelp& option : agent_option_table()) {
    const std::string name = option.name;
    if (*option.value == '\0') {
      app.add_flag_callback(
          "--" + name, [arguments, name] { arguments->values[name] = "true"; }, option.help);
      continue;
    }
    app.add_option_function<std::string>(
           "--" + name,
           [arguments, name](const std::string& text) { arguments->values[name] = text; },
           option.help)
        ->type_name(option.value);
  }
  add_agent_token_command(commands, app);
}

}  // namespace harpe
