#pragma once
/// \file
/// The agent as a process: sockets, signals, systemd, and the controller behind them.

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "harpe/agent/controller.h"
#include "harpe/agent/http_api.h"
#include "harpe/http/http_server.h"
#include "harpe/http/server_socket.h"

namespace harpe {

struct AgentOptions {
  UnixSocketOptions socket{.path = "/run/harpe/agent.sock", .who = "agent"};
  std::filesystem::path log;          ///< empty: standard error
  std::filesystem::path signing_key;  ///< of tokens; empty: none are known
  std::string tcp;                    ///< "ADDRESS:PORT"; empty: no TCP
  std::optional<TlsFiles> tls;
  bool tokens_everywhere = false;  ///< on the Unix socket, too
  std::set<std::string> groups{kGpuControl, kGpuRead, kCpuRead};
  HttpLimits limits{
      .is_vital = [](const HttpRequest& head) { return head.path == "/health"; },
      .late_answer = "the device did not answer in time; what was asked for may still happen",
      .full = "there are as many connections as this agent, or one user or address, may have"};
  ControllerOptions controller;
  std::string version;
};

/// Checks what can be wrong with the options before any device is opened.
Status check_agent_options(const AgentOptions& options);

/// Serves until SIGTERM or SIGINT, then puts everything back. SIGHUP opens the logs anew. All
/// listening sockets are opened before any GPU is touched. \param ready  called once, when all
/// sockets listen, with what they are.
Status run_agent(Devices devices, Policy policy, AgentOptions options,
                 const std::function<void(std::string_view)>& ready);

}  // namespace harpe
