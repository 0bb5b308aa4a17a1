#pragma once
/// \file
/// A small client of the agent over its Unix socket: leases, settings, readings. It waits for each
/// response; to set clocks without waiting, use a clock channel (clock_channel.h).

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/net/http_client/http_link.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// Returns the agent's socket: `given`, or if empty HARPE_AGENT_SOCKET, or if unset the default.
std::string agent_socket(const std::string& given);

/// Not thread-safe. Errors of the agent keep their code; requests fail with `kUnavailable` if there
/// is no agent or it does not respond. If the agent has closed the connection, a request opens a
/// new one, because the agent identifies its client by process, not by connection.
class AgentClient {
 public:
  static constexpr const char* kDefaultSocket = "/run/harpe/agent.sock";
  /// Longer than the agent's own limit of 60 s for a device.
  static constexpr Seconds kLongestRequest{70};

  /// Connects to the agent and checks that it responds.
  /// \param longest  longest time from a request to the end of its response
  static Result<AgentClient> connect(const std::filesystem::path& socket,
                                     Seconds longest = kLongestRequest);

  Result<std::vector<GpuIdentity>> gpus();
  Result<Lease> take(const LeaseRequest& request);
  Status renew(const std::string& lease, Seconds duration);
  /// Releases a lease. Returns when all its settings are restored.
  Status release(const std::string& lease);
  /// Returns the leases that this user may see.
  Result<std::vector<Lease>> leases();
  /// Returns the leases on a GPU, without their ids, if this user may read or set the GPU.
  Result<std::vector<Lease>> holders(int gpu);
  Result<Applied> apply(const std::string& lease, int gpu, const Setting& setting);
  Result<GpuReading> read(int gpu);
  /// Returns the settings of a GPU and those allowed to this client. Settings that the GPU does not
  /// report or the policy does not allow are empty.
  Result<GpuOffer> offer(int gpu);

 private:
  AgentClient(std::string socket, std::unique_ptr<net::HttpLink> link)
      : socket_(std::move(socket)), link_(std::move(link)) {}

  /// Sends one request and returns its response with any status.
  Result<net::HttpResult> respond(const std::string& method, const std::string& path,
                                  std::string body);
  /// Sends a request and returns the document of the response. Fails if the status is 400 or more.
  Result<JsonValue> ask(const std::string& method, const std::string& path, std::string body = {});

  std::string socket_;  ///< path
  std::unique_ptr<net::HttpLink> link_;
};

}  // namespace harpe::node
