#pragma once
/// \file
/// HTTP/1.1 over Unix sockets and TCP, with or without TLS, for one handler.
///
/// Malformed requests are refused and the connection closed; slow and silent clients are cut off.
/// How many connections there are, and how many bytes of requests and responses they hold, is
/// limited in all and for each user, so that one cannot shut others out; beyond the limit of
/// connections a reserve still says that there is no room and how the server is, and serves its
/// administrator. Running out of file descriptors delays new connections and hurts no other client.

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

/// What one server gives its clients.
struct HttpLimits {
  std::size_t connections = 16384;          ///< 0: no limit but that of open files
  std::size_t connections_per_user = 1024;  ///< or for each address
  /// Beyond these. Half is for the administrator: root, or the user that the server runs as, on a
  /// Unix socket. In the other half, of which one user has at most an eighth, requests that are
  /// `is_vital` are served, others refused with `full`.
  std::size_t reserve = 64;
  std::size_t handshakes = 1024;  ///< of TLS at once, a quarter of them for each user; others wait
  /// Bytes of requests and responses that all connections hold at once, half of them for each user,
  /// beside some 6 KiB of each connection. What finds no room gets a 503.
  std::size_t buffered = 64 * 1024 * 1024;
  Seconds handshake{10};  ///< of TLS
  Seconds idle{75};       ///< between two requests
  Seconds header{10};     ///< from the first byte of a request to the end of its header
  Seconds request{10};    ///< from the first byte of a request to its last
  Seconds response{60};   ///< what the handler may take
  Seconds at_once{1};     ///< a response that takes longer is one that a client may leave
  Seconds after_end{5};   ///< for such a response to come where the client sends nothing more
  Seconds write{20};      ///< for a client to take what it is sent, and more for large responses:
  double slowest_write = 100e3;  ///< bytes a second
  Seconds reserved{2};           ///< for a connection in the reserve to ask
  HttpSizes sizes = {};
  /// Asked for a request whose body is still to come, which is empty then: what to respond instead
  /// of reading it, after which the connection ends. The handler does not see the request.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> refuse_unread = {};
  /// Whether a request is served also where there is no room for its connection.
  std::function<bool(const HttpRequest& head)> is_vital = {};
  /// The `client` of a request that another server hands on, where it shows that it is one. None:
  /// it does not, and counts as the client that it comes from.
  std::function<std::optional<std::string>(const HttpRequest& head)> origin_of = {};
  /// What a client gets when the handler does not respond in time.
  std::string late_response = "there was no response in time; what was asked for may still happen";
  /// What a client gets when there is no room.
  std::string full = "there are as many connections as the server, or you, may have";
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
  /// Reads certificates and keys that were written since; new connections get them. Where one
  /// cannot be used, the one before stays. Whether any was read.
  Result<bool> reload_certificates();

  /// Accepts no more and closes all connections.
  void close();

  std::size_t connections() const;
  std::uint64_t connections_refused() const;  ///< for being over a limit
  std::size_t buffered() const;               ///< bytes, as `HttpLimits::buffered` counts them

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Keys, revoked tokens and certificates follow their files while a server runs.

/// How often a server looks: what replaces files, as Kubernetes and certbot do, sends no signal.
constexpr Seconds kReloadPeriod{10};

/// Reads what was written since, and logs what came of it. \param keys  or null
void reload_secrets(TokenKeys* keys, HttpServer& server, ServerLog& log);

}  // namespace harpe::net
