#pragma once
/// \file
/// The agent as a process: sockets, signals, systemd, and the controller behind them.

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
  std::filesystem::path log;             ///< empty: standard error
  std::filesystem::path signing_key;     ///< of tokens; empty: none are known
  std::filesystem::path revoked_tokens;  ///< see net/service/token_keys.h; empty: none are
  std::string tcp;                       ///< "ADDRESS:PORT"; empty: no TCP
  std::optional<net::TlsFiles> tls;
  bool tokens_everywhere = false;  ///< on the Unix socket, too
  std::set<std::string> groups{kGpuControl, kGpuRead, kCpuRead};
  net::HttpLimits limits{
      .is_vital = [](const net::HttpRequest& head) { return head.path == "/health"; },
      .late_response = "the device did not answer in time; what was asked for may still happen",
      .full = "there are as many connections as this agent, or one user or address, may have"};
  ControllerOptions controller;
  std::string version;
};

/// Checks what can be wrong with the options before any device is opened.
Status check_agent_options(const AgentOptions& options);

/// Open files beside connections over HTTP: what a node of so many GPUs needs for leases, clock
/// channels, drivers and logs.
std::size_t files_beside_connections(std::size_t gpus);
/// Limits that so many open files can keep, whatever was asked for: connections leave room for the
/// rest of the agent, and those of one user leave a quarter to others.
net::HttpLimits fit_to_files(net::HttpLimits limits, std::uint64_t files, std::size_t gpus);

/// Restores what a crashed agent left changed, before anything else that can fail: a policy that
/// cannot be read, a log, a socket. Then serves until SIGTERM or SIGINT, and puts everything back.
/// SIGHUP reopens the logs. If the terminal of the agent has closed, SIGHUP ends the agent.
/// \param ready  called once when all sockets listen, with their names
Status run_agent(Devices devices, Result<Policy> policy, AgentOptions options,
                 const std::function<void(std::string_view)>& ready);

}  // namespace harpe::node
