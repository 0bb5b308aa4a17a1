#pragma once
/// \file
/// A server on its own port and simple clients, for tests of the transport.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/http/tls_testing.h"

namespace harpe::net {

/// A server on its own thread.
class LocalServer {
 public:
  struct Options {
    std::uint16_t port = 0;
    const TestCertificate* certificate = nullptr;  ///< null for a server without TLS
    HttpLimits limits = {};
  };
  explicit LocalServer(HttpHandler handler) : LocalServer(std::move(handler), Options()) {}
  LocalServer(HttpHandler handler, Options options)
      : server_(loop_, std::move(handler), std::move(options.limits),
                [this](const std::string& line) { log_.push_back(line); }),
        scheme_(options.certificate == nullptr ? "http" : "https") {
    Result<UniqueFd> socket =
        listen_tcp({.host = "127.0.0.1", .port = options.port, .loopback = true});
    EXPECT_TRUE(socket.ok()) << (socket.ok() ? "" : socket.error().text());
    address_ = listening_address(socket->get());
    const std::optional<TlsFiles> tls =
        options.certificate != nullptr ? std::optional(options.certificate->files()) : std::nullopt;
    EXPECT_TRUE(server_.serve(*std::move(socket), false, tls ? &*tls : nullptr).ok());
    thread_ = std::thread([this] { loop_.run(); });
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  ~LocalServer() {
    loop_.post([this] {
      server_.close();
      loop_.stop();
    });
    thread_.join();
  }

  std::string url() const { return scheme_ + "://" + address_; }
  std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)));
  }
  ServerLoop& loop() { return loop_; }
  /// Calls `work` on the loop's thread and returns its result.
  template <class Work>
  auto on_loop(Work work) {
    std::promise<decltype(work())> done;
    loop_.post([&] { done.set_value(work()); });
    return done.get_future().get();
  }
  std::size_t connections() {
    return on_loop([this] { return server_.connections(); });
  }
  std::size_t buffered() {
    return on_loop([this] { return server_.buffered(); });
  }
  std::vector<std::string> log() {
    return on_loop([this] { return log_; });
  }
  /// Returns the error message, or an empty string on success.
  std::string reload_certificates() {
    return on_loop([this] {
      const Result<bool> reloaded = server_.reload_certificates();
      return reloaded.ok() ? std::string() : reloaded.error().text();
    });
  }
  /// Closes the server while its loop runs on.
  void close() {
    on_loop([this] { return server_.close(), true; });
  }

 private:
  std::vector<std::string> log_;  ///< used on the loop's thread
  ServerLoop loop_;
  HttpServer server_;
  std::string scheme_;
  std::string address_;
  std::thread thread_;
};

/// A client connection that waits for responses, but not for ever.
class LocalClient {
 public:
  /// \param receive_buffer  bytes; 0 for the default
  explicit LocalClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  virtual ~LocalClient() = default;
  LocalClient(const LocalClient&) = delete;
  LocalClient& operator=(const LocalClient&) = delete;

  /// Returns false if the server has ended the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = write_some(bytes.data(), bytes.size());
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Reads until `end` or the end of the connection. Returns all bytes since the last call.
  std::string read_until(const std::string& end) {
    std::string text;
    char c = 0;
    while (!text.ends_with(end) && read_some(&c, 1) == 1) text += c;
    return text;
  }
  std::string read_to_end() {
    std::string text, buffer(16 * 1024, ' ');
    for (ssize_t size = 0; (size = read_some(buffer.data(), buffer.size())) > 0;) {
      text.append(buffer, 0, static_cast<std::size_t>(size));
    }
    return text;
  }
  void end_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  int socket() const { return fd_.get(); }

 protected:
  virtual ssize_t write_some(const char* bytes, std::size_t size) {
    return ::send(fd_.get(), bytes, size, MSG_NOSIGNAL);
  }
  virtual ssize_t read_some(char* to, std::size_t size) { return ::recv(fd_.get(), to, size, 0); }

 private:
  UniqueFd fd_;
};

/// A client connection with TLS that trusts every certificate.
class LocalTlsClient final : public LocalClient {
 public:
  explicit LocalTlsClient(std::uint16_t port)
      : LocalClient(port),
        context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free),
        tls_(SSL_new(context_.get()), &SSL_free) {
    std::signal(SIGPIPE, SIG_IGN);
    SSL_set_fd(tls_.get(), socket());
    EXPECT_EQ(SSL_connect(tls_.get()), 1);
  }
  /// Returns true if the server ended the TLS session properly, rather than cutting it off.
  bool was_ended() const { return (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }

 protected:
  ssize_t write_some(const char* bytes, std::size_t size) override {
    return SSL_write(tls_.get(), bytes, static_cast<int>(size));
  }
  ssize_t read_some(char* to, std::size_t size) override {
    return SSL_read(tls_.get(), to, static_cast<int>(size));
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
};

/// Returns the whole response to a request on a new connection.
inline std::string asked(std::uint16_t port, const std::string& request) {
  LocalClient client(port);
  client.send(request + "Connection: close\r\n\r\n");
  return client.read_to_end();
}

}  // namespace harpe::net
