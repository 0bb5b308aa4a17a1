#include "harpe/training/server/waiting_server.h"

#include <fcntl.h>

#include <string>
#include <utility>

#include "harpe/net/http/http_responses.h"

namespace harpe {
namespace {

/// Does not name the database: anyone can read this response. The log names it.
HttpResponse waits(const HttpRequest& /*request*/) {
  HttpResponse response =
      native_error(503, "unavailable", "this server has just started and waits for its database");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpLimits without_bodies(HttpLimits limits) {
  limits.refuse_unread = waits;
  return limits;
}

}  // namespace

WaitingServer::WaitingServer(HttpLimits limits, ServerLog& log)
    : server_(
          loop_, [](const HttpRequest& request, const Reply& reply) { reply(waits(request)); },
          without_bodies(std::move(limits)), [&log](const std::string& line) { log.write(line); }) {
}

Result<std::unique_ptr<WaitingServer>> WaitingServer::serve(const std::vector<OpenSocket>& sockets,
                                                            const std::optional<TlsFiles>& tls,
                                                            HttpLimits limits, ServerLog& log) {
  std::unique_ptr<WaitingServer> server(new WaitingServer(std::move(limits), log));
  for (const OpenSocket& socket : sockets) {
    UniqueFd listening(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0));
    HARPE_TRY(
        server->server_.serve(std::move(listening), false, socket.is_tcp && tls ? &*tls : nullptr));
  }
  server->thread_ = std::thread([&loop = server->loop_] { loop.run(); });
  return server;
}

WaitingServer::~WaitingServer() {
  loop_.post([this] {
    server_.close();
    loop_.stop();
  });
  if (thread_.joinable()) thread_.join();
}

}  // namespace harpe
