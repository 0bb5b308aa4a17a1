#include "harpe/command/command/agent_command.h"

#include "harpe/command/command/help.h"
#include "harpe/command/command/option_file.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

void add_agent_token_command(Commands& commands, CLI::App& agent, TokenRequest& request,
                             Action action) {
  const std::string name = full_name(agent);
  CLI::App& token = commands.add(agent, "token", "tokens for clients that come over TCP",
                                 name +
                                     " token issue --signing-key KEY --user grafana \\\n"
                                     "    --scope gpu-read,cpu-read --expires 7d");
  CLI::App& issue = commands.add(
      token, "issue",
      "sign a token\n"
      "Prints a token (JWT, HS256) that names its holder to the agent; the policy says under "
      "`tokens` what the holder may do, within the token's scopes. --json prints its "
      "id, by which an agent's --revoked-tokens refuses it before it expires.",
      "openssl rand -hex 32 > key; chmod 600 key\n" + name +
          " token issue --signing-key key --user grafana \\\n"
          "    --scope gpu-read,cpu-read --expires 7d",
      std::move(action));
  add_text(issue, "--signing-key", "FILE",
           "Key to sign with, the first line of the file (mode 600)", request.key)
      ->required();
  add_text(issue, "--user", "NAME", "Whom the token names", request.user)->required();
  add_text(issue, "--scope", "SCOPES", "What it is for: gpu-control,gpu-read,cpu-read",
           request.scopes)
      ->required();
  add_text(issue, "--expires", "DURATION", "How long it lasts: 1h, 7d, never (default: 1h)",
           request.expires);
}

}  // namespace

std::string agent_description() {
  return "let unprivileged jobs set clocks and power limits, safely\n"
         "The one privileged daemon of a node. It listens on a Unix socket, does for each user "
         "only "
         "what its policy file allows, and restores what was there before when a lease ends, a "
         "client dies, or the agent itself stops or crashes. Zeus's client works with it unchanged "
         "(ZEUSD_SOCK_PATH).";
}

std::string agent_examples(const std::string& name) {
  return name + " --policy /etc/harpe/agent.toml\n" + name +
         " --config agent-options.toml --dry-run\n" + name +
         " --simulate two-a40.toml --policy agent.toml \\\n"
         "    --socket ./agent.sock";
}

const std::vector<AgentOptionHelp>& agent_option_table() {
  static const std::vector<AgentOptionHelp> kTable{
      {"policy", "FILE", "Who may do what (default: /etc/harpe/agent.toml)"},
      {"socket", "PATH", "Unix socket to serve (default: /run/harpe/agent.sock)"},
      {"socket-mode", "MODE", "Who may connect, octal (default: 666; the policy decides the rest)"},
      {"socket-owner", "USER", "Owner of the socket"},
      {"socket-group", "GROUP", "Group of the socket"},
      {"tcp", "ADDRESS:PORT", "Serve TCP too; needs --signing-key, and TLS beyond this machine"},
      {"tls-certificate", "FILE", "Certificate chain for TCP (PEM)"},
      {"tls-key", "FILE", "Key of the certificate (PEM, mode 600)"},
      {"signing-key", "FILE", "Keys of tokens, one a line; the first signs (mode 600)"},
      {"revoked-tokens", "FILE", "Tokens that are refused before they expire"},
      {"tokens-everywhere", "", "Ask for a token on the Unix socket, too"},
      {"enable", "GROUPS", "API groups: gpu-control,gpu-read,cpu-read (default: all)"},
      {"state-file", "FILE", "What to restore after a crash (default: beside the socket)"},
      {"audit-log", "FILE",
       "Every change, as JSON lines (default: /var/log/harpe/agent-audit.jsonl, or beside a socket "
       "elsewhere)"},
      {"clock-socket", "PATH", "Where clock channels are given out (default: beside the socket)"},
      {"log", "FILE", "Log (default: standard error); SIGHUP opens it anew"},
      {"owner-cpus", "CPUS",
       "CPUs such as 0-3,8 for threads that set clocks before others run; each goes to that of its "
       "client if it is one of them (default: any, wherever clients are)"},
      {"minimum-dwell", "DURATION", "Least time between two clocks of one GPU (default: 20ms)"},
      {"connections", "COUNT",
       "Most connections at once (default: 16384, or as many as open files allow)"},
      {"connections-per-user", "COUNT", "Most of one user or address (default: 1024)"},
      {"dry-run", "", "Change nothing; say what would be changed"},
      {"simulate", "FILE",
       "Serve the simulated GPUs of this file (also HARPE_SIMULATION), on a --socket of its own"}};
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
