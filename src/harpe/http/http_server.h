#pragma once
/// \file
/// HTTP/1.1 over Unix sockets and TCP, with or without TLS, for one handler.
///
/// Malformed requests are answered and the connection closed; slow and silent clients are cut off;
/// each user has a limited number of connections, so that one cannot shut others out. Running out
/// of file descriptors delays new connections and hurts nobody else.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/http/http_message.h"
#include "harpe/http/http_reader.h"
#include "harpe/http/server_loop.h"

namespace harpe {

/// What one server gives its clients.
struct HttpLimits {
  std::size_t connections = 16384;
  std::size_t connections_per_user = 1024;
  Seconds idle{75};     ///< between two requests
  Seconds request{10};  ///< from the first byte of a request to its last
  Seconds answer{60};   ///< what the handler may take
  Seconds write{20};    ///< for a client to take what it is sent
  HttpSizes sizes = {};
  /// Asked for a request whose body is still to come, which is empty then: what to answer instead
  /// of reading it, after which the connection ends. The handler does not see the request.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> refuse_unread = {};
  /// What a client is told when the handler does not answer in time.
  std::string late_answer = "there was no answer in time; what was asked for may still happen";
};

/// Certificate chain and key (PEM) of a listener that speaks TLS 1.2 or newer.
struct TlsFiles {
  std::filesystem::path certificate, key;
};

/// Runs on the thread of its loop; only `Reply` and the wake of streams may come from other
/// threads, until the loop is destroyed.
class HttpServer {
 public:
  HttpServer(ServerLoop& loop, HttpHandler handler, HttpLimits limits,
             std::function<void(const std::string&)> log);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Serves a listening, non-blocking socket. \param needs_token  marks its requests so.
  Status serve(UniqueFd listening, bool needs_token, const TlsFiles* tls = nullptr);

  /// Accepts no more and closes all connections.
  void close();

  std::size_t connections() const;
  std::uint64_t connections_refused() const;  ///< for being over a limit

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace harpe
