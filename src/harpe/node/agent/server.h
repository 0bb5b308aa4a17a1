#pragma once
/// \file
/// The process of the agent: sockets, signals, systemd, and the controller behind them.

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/http_api.h"

namespace harpe::node {

struct AgentOptions {
  net::UnixSocketOptions socket{.path = "/run/harpe/agent.sock", .who = "agent"};
  std::filesystem::path log;             ///< log file; empty for standard error
  std::filesystem::path signing_key;     ///< signing key of tokens; empty if tokens are not used
  std::filesystem::path revoked_tokens;  ///< see net/service/token_keys.h; empty if there are none
  std::string tcp;                       ///< "ADDRESS:PORT"; empty for no TCP
  std::optional<net::TlsFiles> tls;
  bool tokens_everywhere = false;  ///< if true, tokens are required on the Unix socket too
  std::set<std::string> groups{kGpuControl, kGpuRead, kCpuRead};
  net::HttpLimits limits{
      .is_vital = [](const net::HttpRequest& head) { return head.path == "/health"; },
      .late_response = "the device did not answer in time; the request may still take effect",
      .full = "the limit of connections is reached, of this agent or of one user or address"};
  ControllerOptions controller;
  std::string version;
};

/// Checks the options for errors that are detectable before a device is opened.
Status check_agent_options(const AgentOptions& options);

/// Returns the number of open files that a node with `gpus` GPUs needs in addition to HTTP
/// connections: for leases, clock channels, drivers and logs.
std::size_t files_beside_connections(std::size_t gpus);
/// Returns the limits reduced to fit `files` open files: connections leave room for the rest of the
/// agent, and connections of one user leave a quarter to others.
net::HttpLimits fit_to_files(net::HttpLimits limits, std::uint64_t files, std::size_t gpus);

/// Runs the agent. First restores the settings that a crashed agent left changed, before errors of
/// the policy, a log or a socket can end the agent. Then serves until SIGTERM or SIGINT, and
/// restores all settings. SIGHUP reopens the logs and reloads keys; if the agent's terminal has
/// closed, it ends the agent.
/// \param ready  called with the name of each socket once all sockets listen
Status run_agent(Devices devices, Result<Policy> policy, AgentOptions options,
                 const std::function<void(std::string_view)>& ready);

}  // namespace harpe::node
