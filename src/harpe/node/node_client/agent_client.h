#pragma once
/// \file
/// A small client of the agent over its Unix socket: leases, settings, readings. It waits for each
/// answer; clocks that must not wait go through a clock channel (clock_channel.h).

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

/// Where the agent listens: what was given, else HARPE_AGENT_SOCKET, else the usual socket.
std::string agent_socket(const std::string& given);

/// Not thread-safe. Errors of the agent keep their code; an agent that is not there, or falls
/// silent, is `kUnavailable`. Where the agent has hung up, a request goes over a new connection:
/// the agent knows its client by process, not by connection.
class AgentClient {
 public:
  static constexpr const char* kDefaultSocket = "/run/harpe/agent.sock";
  /// The agent itself gives up on a device after 60 s.
  static constexpr Seconds kLongestRequest{70};

  /// Asks for a sign of life.
  /// \param longest  from a request to the end of its response
  static Result<AgentClient> connect(const std::filesystem::path& socket,
                                     Seconds longest = kLongestRequest);

  Result<std::vector<GpuIdentity>> gpus();
  Result<Lease> take(const LeaseRequest& request);
  Status renew(const std::string& lease, Seconds duration);
  /// Returns when everything is back.
  Status release(const std::string& lease);
  /// Those that this user may see.
  Result<std::vector<Lease>> leases();
  /// Who holds a GPU, for users who may read or set it: leases without their ids.
  Result<std::vector<Lease>> holders(int gpu);
  Result<Applied> apply(const std::string& lease, int gpu, const Setting& setting);
  Result<GpuReading> read(int gpu);
  /// What can be set, and what this client may; what the GPU does not tell is empty.
  Result<GpuOffer> offer(int gpu);

 private:
  AgentClient(std::string socket, std::unique_ptr<net::HttpLink> link)
      : socket_(std::move(socket)), link_(std::move(link)) {}

  /// Sends one request and waits for its response, whatever the status.
  Result<net::HttpResult> respond(const std::string& method, const std::string& path,
                                  std::string body);
  /// The document of the response; a status of 400 or more becomes an error.
  Result<JsonValue> ask(const std::string& method, const std::string& path, std::string body = {});

  std::string socket_;  ///< path
  std::unique_ptr<net::HttpLink> link_;
};

}  // namespace harpe::node
