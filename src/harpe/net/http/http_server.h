#pragma once
/// \file
/// HTTP/1.1 server over Unix sockets and TCP, with or without TLS, for one handler.
///
/// Malformed requests are refused and their connection is closed; slow and silent clients are
/// disconnected. The number of connections, and the bytes of requests and responses that they hold,
/// are limited in total and per user, so that one user cannot shut out others. Beyond the limit of
/// connections, a reserve still reports that the server is full, responds to health checks, and
/// serves the administrator. If file descriptors run out, new connections are delayed and no other
/// client is affected.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/http/http_message.h"
#include "harpe/net/http/http_reader.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/net/service/server_log.h"
#include "harpe/net/service/token_keys.h"

namespace harpe::net {

/// Limits of one server for its clients.
struct HttpLimits {
  std::size_t connections = 16384;          ///< 0: limited only by the number of open files
  std::size_t connections_per_user = 1024;  ///< or per address
  /// Connections beyond these limits. Half of them are for the administrator: root, or the user
  /// that the server runs as, on a Unix socket. In the other half, of which one user gets at most
  /// an eighth, the server handles requests that are `is_vital` and refuses others with `full`.
  std::size_t reserve = 64;
  std::size_t handshakes = 1024;  ///< concurrent, of TLS, a quarter of them per user; others wait
  /// Bytes of requests and responses that all connections hold at once, half of them per user, in
  /// addition to about 6 KiB per connection. Requests and responses beyond that result in a 503.
  std::size_t buffered = 64 * 1024 * 1024;
  Seconds handshake{10};  ///< of TLS
  Seconds idle{75};       ///< between two requests
  Seconds header{10};     ///< from the first byte of a request to the end of its header
  Seconds request{10};    ///< from the first byte of a request to its last
  Seconds response{60};   ///< longest time for the handler
  /// If a response takes longer, the server watches for the client to leave.
  Seconds at_once{1};
  Seconds after_end{5};  ///< longest wait for such a response once the client sends nothing more
  Seconds write{20};     ///< for a client to read a response, plus its size over `slowest_write`
  double slowest_write = 100e3;  ///< bytes per second
  Seconds reserved{2};           ///< for a connection in the reserve to send its request
  HttpSizes sizes = {};
  /// Called with a request whose body has not been read yet (`body` is empty). If it returns a
  /// response, the server sends that instead of reading the body, and closes the connection; the
  /// handler is not called.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> refuse_unread = {};
  /// Returns true if a request is served even if there is no room for its connection.
  std::function<bool(const HttpRequest& head)> is_vital = {};
  /// Returns the `client` of a request that another server forwards, if it proves that it is a
  /// server; otherwise nullopt, and the request counts for the client of its connection.
  std::function<std::optional<std::string>(const HttpRequest& head)> origin_of = {};
  /// The response if the handler does not respond in time.
  std::string late_response = "there was no response in time; the request may still take effect";
  /// The response if there is no room.
  std::string full = "the limit of connections is reached, of the server or of this client";
};

/// PEM files with the certificate chain and key of a listener that uses TLS 1.2 or newer.
struct TlsFiles {
  std::filesystem::path certificate, key;
};

/// The server of one loop. Runs on the loop's thread. Only `Reply` and the wake function of streams
/// may be called from other threads, until the loop is destroyed.
class HttpServer {
 public:
  HttpServer(ServerLoop& loop, HttpHandler handler, HttpLimits limits,
             std::function<void(const std::string&)> log);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Serves a listening, non-blocking socket.
  /// \param needs_token  `HttpRequest::needs_token` of its requests
  Status serve(UniqueFd listening, bool needs_token, const TlsFiles* tls = nullptr);
  /// Reads certificates and keys that have changed, for new connections. If one cannot be used, the
  /// one before stays in use. Returns true if any was read.
  Result<bool> reload_certificates();

  /// Stops accepting connections and closes all of them.
  void close();

  std::size_t connections() const;
  std::uint64_t connections_refused() const;  ///< because of a limit
  std::size_t buffered() const;               ///< bytes, as `HttpLimits::buffered` counts them

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Keys, revoked tokens and certificates are reloaded from their files while a server runs.

/// Period of the checks for changed files. Programs that replace files, such as Kubernetes and
/// certbot, send no signal.
constexpr Seconds kReloadPeriod{10};

/// Reads the files that have changed, and logs the result.
/// \param keys  may be null
void reload_secrets(TokenKeys* keys, HttpServer& server, ServerLog& log);

}  // namespace harpe::net
