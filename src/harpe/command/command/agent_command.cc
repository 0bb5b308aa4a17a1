#include "harpe/command/command/agent_command.h"

#include "harpe/command/command/help.h"
#include "harpe/command/command/option_file.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

void add_agent_token_command(Commands& commands, CLI::App& agent, TokenRequest& request,
                             Action action) {
  const std::string name = full_name(agent);
  CLI::App& token = commands.add(agent, "token", "tokens for clients that connect over TCP",
                                 name +
                                     " token issue --signing-key KEY --user grafana \\\n"
                                     "    --scope gpu-read,cpu-read --expires 7d");
  CLI::App& issue = commands.add(
      token, "issue",
      "sign a token\n"
      "Prints a token (JWT, HS256) that identifies its holder to the agent. The policy defines "
      "the holder's rights under `tokens`; the token's scopes limit them. --json also prints the "
      "token's id. To revoke the token before it expires, add the id to the file of the agent's "
      "--revoked-tokens.",
      "openssl rand -hex 32 > key; chmod 600 key\n" + name +
          " token issue --signing-key key --user grafana \\\n"
          "    --scope gpu-read,cpu-read --expires 7d",
      std::move(action));
  add_text(issue, "--signing-key", "FILE", "File whose first line is the signing key (mode 600)",
           request.key)
      ->required();
  add_text(issue, "--user", "NAME", "Name of the token's holder", request.user)->required();
  add_text(issue, "--scope", "SCOPES", "Scopes: gpu-control,gpu-read,cpu-read", request.scopes)
      ->required();
  add_text(issue, "--expires", "DURATION", "Lifetime: 1h, 7d, never (default: 1h)",
           request.expires);
}

}  // namespace

std::string agent_description() {
  return "let unprivileged jobs set clocks and power limits, safely\n"
         "The agent is the only privileged daemon of a node. It listens on a Unix socket, grants "
         "each user only the rights in the policy file, and restores the previous settings when a "
         "lease ends, when a client dies, and when the agent itself stops or crashes. Zeus's "
         "client works with it unchanged (ZEUSD_SOCK_PATH).";
}

std::string agent_examples(const std::string& name) {
  return name + " --policy /etc/harpe/agent.toml\n" + name +
         " --config agent-options.toml --dry-run\n" + name +
         " --simulate two-a40.toml --policy agent.toml \\\n"
         "    --socket ./agent.sock";
}

const std::vector<AgentOptionHelp>& agent_option_table() {
  static const std::vector<AgentOptionHelp> kTable{
      {"policy", "FILE", "Rights of users (default: /etc/harpe/agent.toml)"},
      {"socket", "PATH", "Unix socket to serve (default: /run/harpe/agent.sock)"},
      {"socket-mode", "MODE",
       "Mode of the socket, octal (default: 666; the policy restricts users further)"},
      {"socket-owner", "USER", "Owner of the socket"},
      {"socket-group", "GROUP", "Group of the socket"},
      {"tcp", "ADDRESS:PORT", "Also serve TCP; needs --signing-key, and TLS beyond this machine"},
      {"tls-certificate", "FILE", "Certificate chain for TCP (PEM)"},
      {"tls-key", "FILE", "Key of the certificate (PEM, mode 600)"},
      {"signing-key", "FILE", "Keys of tokens, one per line; the first signs (mode 600)"},
      {"revoked-tokens", "FILE", "Tokens to refuse before they expire"},
      {"tokens-everywhere", "", "Require a token on the Unix socket, too"},
      {"enable", "GROUPS", "API groups: gpu-control,gpu-read,cpu-read (default: all)"},
      {"state-file", "FILE", "Settings to restore after a crash (default: beside --socket)"},
      {"audit-log", "FILE",
       "Log of every change, as JSON lines (default: /var/log/harpe/agent-audit.jsonl, or beside "
       "--socket if it is outside /run/harpe)"},
      {"clock-socket", "PATH",
       "Unix socket that gives out clock channels (default: beside --socket)"},
      {"log", "FILE", "Log (default: standard error); SIGHUP reopens it"},
      {"owner-cpus", "CPUS",
       "CPUs such as 0-3,8 for the threads that set clocks and run before others; each moves to "
       "the CPU of its client if the list contains it (default: any CPU, chosen by the kernel)"},
      {"minimum-dwell", "DURATION",
       "Least time between two clock changes of a GPU (default: 20ms)"},
      {"connections", "COUNT",
       "Maximum connections at once (default: 16384, or as many as open files allow)"},
      {"connections-per-user", "COUNT", "Maximum per user or address (default: 1024)"},
      {"dry-run", "", "Change nothing; report the intended changes"},
      {"simulate", "FILE",
       "Serve the simulated GPUs of this file (also HARPE_SIMULATION); needs its own --socket"}};
  return kTable;
}

void add_agent_options(Commands& commands, CLI::App& agent,
                       const std::shared_ptr<AgentArguments>& arguments, Action issue) {
  arguments->command = &agent;
  add_config_option(agent, arguments->config);
  for (const AgentOptionHelp& option : agent_option_table()) {
    const std::string name = option.name;
    if (*option.value == '\0') {
      agent.add_flag_callback(
          "--" + name, [arguments, name] { arguments->values[name] = "true"; }, option.help);
      continue;
    }
    agent
        .add_option_function<std::string>(
            "--" + name,
            [arguments, name](const std::string& text) { arguments->values[name] = text; },
            option.help)
        ->type_name(option.value);
  }
  add_agent_token_command(commands, agent, arguments->token, std::move(issue));
}

}  // namespace harpe::command
