#pragma once
/// \file
/// A small client of the agent over its Unix socket: leases, settings, readings. It waits for each
/// answer; clocks that must not wait go through a clock channel (clock_channel.h).

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/node_client/lease.h"

namespace harpe {

/// Not thread-safe. Errors of the agent keep their code; an agent that is not there is
/// `kUnavailable`.
class AgentClient {
 public:
  static constexpr const char* kDefaultSocket = "/run/harpe/agent.sock";

  static Result<AgentClient> connect(const std::filesystem::path& socket);

  Result<std::vector<GpuIdentity>> gpus();
  Result<Lease> take(const LeaseRequest& request);
  Status renew(const std::string& lease, Seconds duration);
  /// Returns when everything is back.
  Status release(const std::string& lease);
  /// Those that this user may see.
  Result<std::vector<Lease>> leases();
  /// Who holds a GPU, for whoever may read or set it: leases without their ids.
  Result<std::vector<Lease>> holders(int gpu);
  Result<Applied> apply(const std::string& lease, int gpu, const Setting& setting);
  Result<GpuReading> read(int gpu);

 private:
  explicit AgentClient(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Sends one request and reads its response's document; a status of 400 or more becomes an error.
  Result<JsonValue> ask(const std::string& method, const std::string& path,
                        const std::string& body = {});
  Status send_all(std::string_view bytes);
  Result<std::string> receive_head();
  Result<std::string> receive_body(std::string_view head);

  UniqueFd fd_;
  std::string received_;
};

}  // namespace harpe
