#include "harpe/http/http_server.h"

#include <sys/socket.h>

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <set>

#include "harpe/http/http_connection.h"
#include "harpe/http/peer.h"
#include "harpe/http/server_socket.h"
#include "harpe/http/token.h"

namespace harpe {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

namespace {

constexpr Seconds kPauseWithoutFiles{0.05};
constexpr int kAcceptsInARow = 64;

/// Over TCP the kernel knows nobody.
Peer peer_of_connection(int fd) {
  if (!is_unix_socket(fd)) return {};
  Result<Peer> peer = peer_of_socket(fd);
  return peer.ok() ? *std::move(peer) : Peer();
}

/// One socket that is listened on.
struct Listener {
  Listener(asio::io_context& context, int fd) : descriptor(context, fd) {}
  asio::posix::stream_descriptor descriptor;
  bool needs_token = false;
  std::unique_ptr<asio::ssl::context> tls;
};

}  // namespace

struct HttpServer::State : ConnectionHost, std::enable_shared_from_this<State> {
  State(ServerLoop& given_loop, HttpHandler given_handler, HttpLimits given_limits,
        std::function<void(const std::string&)> given_log)
      : ConnectionHost{given_loop.context(), std::move(given_handler), std::move(given_limits)},
        log(std::move(given_log)),
        loop(given_loop) {}

  void closed(const ConnectionBase& connection, const std::string& key) override {
    connections.erase(&connection);
    if (const auto count = per_key.find(key); count != per_key.end() && --count->second == 0) {
      per_key.erase(count);
    }
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
      // Out of file descriptors or memory: whoever waits is served when others have left.
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
    const Peer peer = peer_of_connection(fd.get());
    const std::string key = peer_key(fd.get(), peer);
    std::size_t& count = per_key[key];
    if (connections.size() >= limits.connections || count >= limits.connections_per_user) {
      ++refused;
      if (count == 0) per_key.erase(key);
      if (listener.tls == nullptr) refuse(fd.get());
      return;
    }
    ++count;
    const int family = is_unix_socket(fd.get()) ? AF_UNIX : AF_INET;
    Socket socket(context);
    error_code error;
    static_cast<void>(socket.assign(asio::generic::stream_protocol(family, 0), fd.get(), error));
    if (error) {
      if (--count == 0) per_key.erase(key);
      return;
    }
    fd.release();
    const std::shared_ptr<ConnectionBase> connection =
        listener.tls == nullptr
            ? make_connection(*this, std::move(socket), peer, key, listener.needs_token)
            : make_tls_connection(*this, std::move(socket), *listener.tls, peer, key,
                                  listener.needs_token);
    connections.emplace(connection.get(), connection);
    connection->start();
  }

  static void refuse(int fd) {
    const std::string text =
        http_text({.status = 503,
                   .content_type = "text/plain; charset=utf-8",
                   .body = "too many connections; close some or try again later\n",
                   .headers = {{"Retry-After", "5"}}},
                  11, false);
    [[maybe_unused]] const auto sent =
        ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  std::function<void(const std::string&)> log;
  ServerLoop& loop;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::map<const ConnectionBase*, std::weak_ptr<ConnectionBase>> connections;
  std::map<std::string, std::size_t> per_key;
  std::uint64_t refused = 0;
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
  std::unique_ptr<asio::ssl::context> context;
  if (tls != nullptr) {
    if (Status secret = check_secret_file(tls->key); !secret.ok()) return secret;
    context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    error_code error;
    static_cast<void>(
        context->set_options(asio::ssl::context::default_workarounds |
                                 asio::ssl::context::no_sslv2 | asio::ssl::context::no_sslv3 |
                                 asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1,
                             error));
    if (!error) {
      static_cast<void>(context->use_certificate_chain_file(tls->certificate.string(), error));
    }
    if (error) return Error::io(tls->certificate, "is no PEM certificate: " + error.message());
    static_cast<void>(
        context->use_private_key_file(tls->key.string(), asio::ssl::context::pem, error));
    if (error) return Error::io(tls->key, "is not the key of the certificate: " + error.message());
  }
  const auto listener = std::make_shared<Listener>(state_->context, listening.release());
  listener->needs_token = needs_token;
  listener->tls = std::move(context);
  state_->listeners.push_back(listener);
  state_->wait(listener);
  return ok_status();
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
  return state_->connections.size();
}

std::uint64_t HttpServer::connections_refused() const {
  return state_->refused;
}

}  // namespace harpe
