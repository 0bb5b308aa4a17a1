#pragma once
/// \file
/// What the agent answers to HTTP requests: who may ask, and which route it is. docs/agent.md is
/// the reference for users.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harpe/net/http/http_message.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/net/service/token_keys.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/power_stream.h"

namespace harpe::node {

/// Groups of routes that can be switched off, and scopes of tokens: the same words.
inline constexpr const char* kGpuControl = "gpu-control";
inline constexpr const char* kGpuRead = "gpu-read";
inline constexpr const char* kCpuRead = "cpu-read";

/// What the transport tells about itself for /metrics and /health.
struct TransportCounts {
  std::size_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::size_t buffered = 0;  ///< bytes of requests and answers
};

struct ApiOptions {
  std::set<std::string> groups{kGpuControl, kGpuRead, kCpuRead};
  std::shared_ptr<const net::TokenKeys> token_keys = {};
  bool dry_run = false;
  std::string version = {};                 ///< of Harpe
  std::vector<bool> gpus_with_energy = {};  ///< which GPUs have an energy counter
  std::vector<bool> cpus_with_dram = {};    ///< which CPU packages meter their memory
  std::function<TransportCounts()> transport = {};
};

/// What routes work with.
struct ApiContext {
  Controller& controller;
  net::ServerLoop& loop;
  Clock& clock;
  PowerStream& power;
  const ApiOptions& options;
  Instant started;
  std::uint64_t requests = 0;  ///< since the start
};

/// Answers requests on the thread of its loop. Answers of the controller still come to it after
/// its last request: close it, destroy the controller, then destroy it.
class AgentApi {
 public:
  AgentApi(Controller& controller, net::ServerLoop& loop, Clock& clock, ApiOptions options);
  /// Ends what listens to the controller.
  void close() { power_.close(); }

  /// The order of checks is zeusd's: group of the route, token, scope; then the route itself, in
  /// which the controller checks the policy.
  void handle(net::HttpRequest request, net::Reply reply);

 private:
  /// Who asks, with what the token says; or what to answer instead.
  std::optional<net::HttpResponse> refuse(net::HttpRequest& request) const;

  ApiOptions options_;
  PowerStream power_;
  ApiContext context_;
};

/// The peer's own GPUs to read: those asked for, or all that it may read.
Result<std::vector<int>> readable_gpus(const Controller& controller, const net::Peer& peer,
                                       const std::optional<std::vector<int>>& asked);

/// Handles a route of zeusd (zeusd_routes.cc). Returns false if the path is not one of them.
bool handle_zeusd(ApiContext& context, net::HttpRequest& request, net::Reply& reply);
/// Handles one of Harpe's own routes (http_native.cc). Returns false if the path is not one of
/// them.
bool handle_native(ApiContext& context, net::HttpRequest& request, net::Reply& reply);

}  // namespace harpe::node
