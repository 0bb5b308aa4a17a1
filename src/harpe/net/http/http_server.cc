#include "harpe/net/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/ssl/context.hpp>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "harpe/base/file.h"
#include "harpe/net/http/http_connection.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/peer.h"
#include "harpe/net/service/token.h"

namespace harpe::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

namespace {

void tell(const Result<bool>& reloaded, const std::string& what, ServerLog& log) {
  if (!reloaded.ok()) {
    log.write("keeps the previous " + what + ": " + reloaded.error().text());
  } else if (*reloaded) {
    log.write("reloaded " + what);
  }
}

constexpr Seconds kPauseWithoutFiles{0.05};
constexpr int kAcceptsInARow = 64;
/// With the keepalive probes of `watch_over`, a lost machine is detected within a minute.
constexpr Seconds kSilence{45};
constexpr std::uint64_t kLargestPem = 1 << 20;  // bytes; a chain has some 10 KiB

/// Returns the peer of a Unix socket; an unknown one over TCP, where the kernel does not know it.
Peer peer_of_connection(int fd) {
  if (!is_unix_socket(fd)) return {};
  Result<Peer> peer = peer_of_socket(fd);
  return peer.ok() ? *std::move(peer) : Peer();
}

Result<std::unique_ptr<asio::ssl::context>> read_context(const TlsFiles& files) {
  HARPE_TRY(check_secret_file(files.key));
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  SSL_CTX* const settings = context->native_handle();
  SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION);
  SSL_CTX_set_options(settings, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Clients resume sessions from tickets that they keep, so the server caches no sessions.
  SSL_CTX_set_session_cache_mode(settings, SSL_SESS_CACHE_OFF);
  // Not read by OpenSSL from the paths: a pipe in place of a file would block the server.
  const std::string certificate = HARPE_TRY(read_regular_file(files.certificate, kLargestPem));
  const std::string key = HARPE_TRY(read_regular_file(files.key, kLargestPem));
  static_cast<void>(context->use_certificate_chain(asio::buffer(certificate), error));
  if (error) return Error::io(files.certificate, "is not a PEM certificate: " + error.message());
  static_cast<void>(context->use_private_key(asio::buffer(key), asio::ssl::context::pem, error));
  if (error) return Error::io(files.key, "is not the key of the certificate: " + error.message());
  return context;
}

/// One listening socket.
struct Listener {
  Listener(asio::io_context& context, int fd) : descriptor(context, fd) {}
  asio::posix::stream_descriptor descriptor;
  bool needs_token = false;
  std::optional<TlsFiles> files;
  FileStamp certificate_seen, key_seen;
  /// Open connections keep the context that they began with.
  std::unique_ptr<asio::ssl::context> tls;

  /// Reads the files again if they have changed. Returns true if it did; after an error the
  /// previous certificate stays in use.
  Result<bool> load() {
    if (!files) return false;
    // Taken before the read, so that a change during the read causes another read.
    const FileStamp certificate = file_stamp(files->certificate);
    const FileStamp key = file_stamp(files->key);
    if (tls != nullptr && certificate == certificate_seen && key == key_seen) return false;
    Result<std::unique_ptr<asio::ssl::context>> context = read_context(*files);
    certificate_seen = certificate;
    key_seen = key;
    if (!context.ok()) return context.error();
    tls = *std::move(context);
    return true;
  }
};

}  // namespace

void reload_secrets(TokenKeys* keys, HttpServer& server, ServerLog& log) {
  if (keys != nullptr) tell(keys->reload(), "signing keys and revoked tokens", log);
  tell(server.reload_certificates(), "certificates", log);
}

struct HttpServer::State : ConnectionHost, std::enable_shared_from_this<State> {
  State(ServerLoop& given_loop, HttpHandler given_handler, HttpLimits given_limits,
        std::function<void(const std::string&)> given_log)
      : ConnectionHost{given_loop.context(), std::move(given_handler), std::move(given_limits)},
        log(std::move(given_log)),
        loop(given_loop),
        admission({.connections = limits.connections > 0 ? limits.connections
                                                         : std::numeric_limits<std::size_t>::max(),
                   .per_client = limits.connections_per_user,
                   .reserve = limits.reserve}) {}

  void closed(const Connection& connection, const ConnectionOrigin& origin) override {
    connections.erase(&connection);
    admission.leave(origin.client, origin.place);
  }

  Admission::Place to_server(const ConnectionOrigin& origin) override {
    return admission.to_server(origin.client);
  }

  void wait(const std::shared_ptr<Listener>& listener) {
    listener->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                    [self = shared_from_this(), listener](error_code error) {
                                      if (!error && !self->stopped) self->accept_some(listener);
                                    });
  }

  void accept_some(const std::shared_ptr<Listener>& listener) {
    for (int i = 0; i < kAcceptsInARow; ++i) {
      UniqueFd fd(::accept4(listener->descriptor.native_handle(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd) {
        add(std::move(fd), *listener);
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      // Out of file descriptors or memory: a waiting client is accepted after others have left.
      if (!short_of_files) log(std::string("new connections have to wait: ") + strerror(errno));
      short_of_files = true;
      loop.after(kPauseWithoutFiles, [self = shared_from_this(), listener] {
        if (!self->stopped) self->accept_some(listener);
      });
      return;
    }
    short_of_files = false;
    wait(listener);
  }

  void add(UniqueFd fd, Listener& listener) {
    Peer peer = peer_of_connection(fd.get());
    std::string client = peer_key(fd.get(), peer);
    const bool is_admin = peer.uid == 0 || peer.uid == static_cast<std::int64_t>(::geteuid());
    const Admission::Place place = admission.enter(client, is_admin);
    if (place == Admission::Place::kReserve || place == Admission::Place::kNone) {
      ++refused;
      say_full(client);
    }
    if (place == Admission::Place::kNone) {
      if (listener.tls == nullptr) refuse(fd.get());
      return;
    }
    const bool is_unix = is_unix_socket(fd.get());
    if (!is_unix) watch_over(fd.get(), kSilence);
    Socket socket(context);
    error_code error;
    static_cast<void>(socket.assign(asio::generic::stream_protocol(is_unix ? AF_UNIX : AF_INET, 0),
                                    fd.get(), error));
    if (error) return admission.leave(client, place);
    fd.release();
    const auto connection = std::make_shared<Connection>(
        shared_from_this(), std::move(socket),
        listener.tls != nullptr ? listener.tls->native_handle() : nullptr,
        ConnectionOrigin{.peer = std::move(peer),
                         .client = std::move(client),
                         .needs_token = listener.needs_token,
                         .place = place});
    connections.emplace(connection.get(), connection);
    connection->start();
  }

  /// Logs a refused connection, at most once a minute because refused clients try again.
  void say_full(const std::string& client) {
    const Clock::time_point now = Clock::now();
    if (said_full && now - *said_full < std::chrono::minutes(1)) return;
    said_full = now;
    log("refused a connection of " + client + ": " +
        (admission.is_full()
             ? "there are " + std::to_string(limits.connections) + ", the limit (--connections)"
             : "it has " + std::to_string(limits.connections_per_user) +
                   ", the limit of one user or address (--connections-per-user)"));
  }

  void refuse(int fd) {
    const std::string text = http_text({.status = 503,
                                        .content_type = "text/plain; charset=utf-8",
                                        .body = limits.full + "; try again in a few seconds\n",
                                        .headers = {{"Retry-After", "5"}}},
                                       11, false);
    [[maybe_unused]] const auto sent =
        ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // Closing a socket with unread bytes would drop the response.
    ::shutdown(fd, SHUT_WR);
    [[maybe_unused]] const auto read = ::recv(fd, scratch.data(), scratch.size(), MSG_DONTWAIT);
  }

  using Clock = std::chrono::steady_clock;
  std::function<void(const std::string&)> log;
  ServerLoop& loop;
  Admission admission;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::map<const Connection*, std::weak_ptr<Connection>> connections;
  std::uint64_t refused = 0;
  std::optional<Clock::time_point> said_full;
  bool short_of_files = false;
  bool stopped = false;
};

HttpServer::HttpServer(ServerLoop& loop, HttpHandler handler, HttpLimits limits,
                       std::function<void(const std::string&)> log)
    : state_(std::make_shared<State>(loop, std::move(handler), std::move(limits), std::move(log))) {
}

HttpServer::~HttpServer() {
  close();
}

Status HttpServer::serve(UniqueFd listening, bool needs_token, const TlsFiles* tls) {
  const auto listener = std::make_shared<Listener>(state_->context, listening.release());
  listener->needs_token = needs_token;
  if (tls != nullptr) listener->files = *tls;
  HARPE_TRY(listener->load());
  state_->listeners.push_back(listener);
  state_->wait(listener);
  return ok_status();
}

Result<bool> HttpServer::reload_certificates() {
  bool changed = false;
  Diagnostics diagnostics;
  for (const auto& listener : state_->listeners) {
    const Result<bool> loaded = listener->load();
    if (!loaded.ok()) diagnostics.add(loaded.error().text());
    changed |= loaded.ok() && *loaded;
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return changed;
}

void HttpServer::close() {
  state_->stopped = true;
  for (const auto& listener : state_->listeners) {
    error_code ignored;
    static_cast<void>(listener->descriptor.close(ignored));
  }
  state_->listeners.clear();
  const auto connections = std::exchange(state_->connections, {});
  for (const auto& [address, weak] : connections) {
    if (const auto connection = weak.lock()) connection->close();
  }
}

std::size_t HttpServer::connections() const {
  return state_->admission.connections();
}

std::uint64_t HttpServer::connections_refused() const {
  return state_->refused;
}

std::size_t HttpServer::buffered() const {
  return state_->budget->held();
}

}  // namespace harpe::net
