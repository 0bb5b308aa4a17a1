#pragma once
/// \file
/// The responses of a server that waits for its database: 503 to every request, so that clients
/// turn to another server, and probes and people see why. Without it their connections would hang,
/// since its sockets listen already.

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/open_sockets.h"
#include "harpe/net/service/server_log.h"

namespace harpe {

/// Serves on a thread of its own until it is destroyed, which closes its connections; the sockets
/// go on listening.
class WaitingServer {
 public:
  /// \param tls  of TCP; none: plain HTTP
  static Result<std::unique_ptr<WaitingServer>> serve(const std::vector<OpenSocket>& sockets,
                                                      const std::optional<TlsFiles>& tls,
                                                      HttpLimits limits, ServerLog& log);
  ~WaitingServer();
  WaitingServer(const WaitingServer&) = delete;
  WaitingServer& operator=(const WaitingServer&) = delete;

 private:
  WaitingServer(HttpLimits limits, ServerLog& log);

  ServerLoop loop_;
  HttpServer server_;
  std::thread thread_;
};

}  // namespace harpe
