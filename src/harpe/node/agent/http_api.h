#pragma once
/// \file
/// The agent's HTTP API: authorisation and routing of requests. Reference: docs/agent.md.

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

/// Groups of routes that can be switched off. The scopes of tokens have the same names.
inline constexpr const char* kGpuControl = "gpu-control";
inline constexpr const char* kGpuRead = "gpu-read";
inline constexpr const char* kCpuRead = "cpu-read";

/// Counts of the transport for /metrics and /health.
struct TransportCounts {
  std::size_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::size_t buffered = 0;  ///< bytes of buffered requests and responses
};

struct ApiOptions {
  std::set<std::string> groups{kGpuControl, kGpuRead, kCpuRead};
  std::shared_ptr<const net::TokenKeys> token_keys = {};
  bool dry_run = false;
  std::string version = {};                 ///< version of Harpe
  std::vector<bool> gpus_with_energy = {};  ///< for each GPU, true if it has an energy counter
  std::vector<bool> cpus_with_dram = {};    ///< for each CPU package, true if its memory is metered
  std::function<TransportCounts()> transport = {};
};

/// The objects that routes use.
struct ApiContext {
  Controller& controller;
  net::ServerLoop& loop;
  Clock& clock;
  PowerStream& power;
  const ApiOptions& options;
  Instant started;
  std::uint64_t requests = 0;  ///< number of requests since the start
};

/// The handler of requests, on the thread of its loop. The controller may respond after the last
/// request: call `close`, destroy the controller, then destroy this object.
class AgentApi {
 public:
  AgentApi(Controller& controller, net::ServerLoop& loop, Clock& clock, ApiOptions options);
  /// Ends listening to the controller.
  void close() { power_.close(); }

  /// Handles a request. Checks in zeusd's order: group of the route, token, scope; then calls the
  /// route, in which the controller checks the policy.
  void handle(net::HttpRequest request, net::Reply reply);

 private:
  /// Returns the response to a refused request; nullopt if it is not refused. Adds the subject and
  /// scopes of a valid token to the request's peer.
  std::optional<net::HttpResponse> refuse(net::HttpRequest& request) const;

  ApiOptions options_;
  PowerStream power_;
  ApiContext context_;
};

/// Returns `asked` unchanged, or if it is nullopt all GPUs that the peer may read. Fails with
/// `kNoPermission` if it may read none.
Result<std::vector<int>> readable_gpus(const Controller& controller, const net::Peer& peer,
                                       const std::optional<std::vector<int>>& asked);

/// Handles a route of zeusd (zeusd_routes.cc). Returns false if the path is not one of them.
bool handle_zeusd(ApiContext& context, net::HttpRequest& request, net::Reply& reply);
/// Handles one of Harpe's own routes (http_native.cc). Returns false if the path is not one of
/// them.
bool handle_native(ApiContext& context, net::HttpRequest& request, net::Reply& reply);

}  // namespace harpe::node
