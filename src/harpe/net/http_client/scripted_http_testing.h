#pragma once
/// \file
/// A server on a local port. The test decides every byte: truncated, slow, malformed. Include
/// GoogleTest first.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"

namespace harpe::net {

/// Answers one request per connection, one connection after another.
class ScriptedHttpServer {
 public:
  /// Returns the bytes of the response to a request (its line and headers), after which the
  /// connection is closed, or nullopt for silence until the server is destroyed.
  using Script = std::function<std::optional<std::string>(const std::string& request)>;

  explicit ScriptedHttpServer(Script script) : script_(std::move(script)) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 16), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    EXPECT_EQ(::pipe(&stop_[0]), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;
  ~ScriptedHttpServer() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
    ::close(listening_);
    for (const int silent : silent_) ::close(silent);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Returns the requests received so far.
  std::vector<std::string> requests() const {
    const MutexLock lock(mutex_);
    return requests_;
  }
  std::size_t count() const { return requests().size(); }

 private:
  /// Waits for input on the socket. Returns false if the server is to stop.
  bool ready(int fd) const {
    pollfd both[] = {{fd, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    return ::poll(&both[0], 2, -1) > 0 && both[1].revents == 0;
  }

  void serve() {
    while (ready(listening_)) {
      const int connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      std::string request;
      char bytes[4096];
      while (request.find("\r\n\r\n") == std::string::npos && ready(connection)) {
        const ssize_t size = ::recv(connection, &bytes[0], sizeof bytes, 0);
        if (size <= 0) break;
        request.append(&bytes[0], static_cast<std::size_t>(size));
      }
      {
        const MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      const auto response = script_(request);
      if (!response) {
        silent_.push_back(connection);
        continue;
      }
      for (std::string_view rest = *response; !rest.empty();) {
        const ssize_t sent = ::send(connection, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;  // the client has closed the connection
        rest.remove_prefix(static_cast<std::size_t>(sent));
      }
      ::close(connection);
    }
  }

  Script script_;
  int listening_ = -1;
  int stop_[2] = {-1, -1};
  int port_ = 0;
  mutable Mutex mutex_;
  std::vector<std::string> requests_ HARPE_GUARDED_BY(mutex_);
  std::vector<int> silent_;  ///< used by the thread, and then by the destructor
  std::thread thread_;
};

/// Returns a whole response. \param headers  lines that each end with "\r\n"
inline std::string scripted_response(
    int status, const std::string& body,
    const std::string& headers = "Content-Type: application/json\r\n") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace harpe::net
