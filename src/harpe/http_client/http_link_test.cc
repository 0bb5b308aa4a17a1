// The way to a server over real sockets, on which the test answers by hand.

#include "harpe/http_client/http_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace harpe {
namespace {

/// A port, and the connections to it.
class Listening {
 public:
  Listening() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    for (const int fd : connections_) ::close(fd);
    ::close(fd_);
  }

  const std::string& url() const { return url_; }
  std::size_t connections() const { return connections_.size(); }

  /// Returns the request that comes next, on whichever connection.
  void respond(HttpLink& link, int status) {
    for (int i = 0; i < 2000; ++i) {
      link.step(Seconds{0.005});
      if (pollfd ready{fd_, POLLIN, 0}; ::poll(&ready, 1, 0) > 0) {
        connections_.push_back(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
      }
      for (const int connection : connections_) {
        char bytes[4096];
        if (::recv(connection, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) continue;
        const std::string text =
            "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 2\r\n\r\n{}";
        ASSERT_EQ(::send(connection, text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
        return;
      }
    }
    FAIL() << "no request has come";
  }

 private:
  int fd_;
  std::string url_;
  std::vector<int> connections_;
};

TEST(HttpLink, UsesItsConnectionAgainButLooksForAnotherServerWhereOneCannotAnswer) {
  Listening server;
  HttpLinkOptions options;
  options.server = server.url();
  const auto link = *HttpLink::open(options);
  const auto ask = [&](int status) {
    std::optional<HttpResult> response;
    link->send("GET", "/", {}, [&](HttpResult got) { response = std::move(got); });
    server.respond(*link, status);
    while (!response) link->step(Seconds{0.01});
    EXPECT_EQ(response->status, status) << response->failure;
    return server.connections();
  };
  EXPECT_EQ(ask(200), 1U);
  EXPECT_EQ(ask(409), 1U);
  EXPECT_EQ(ask(503), 1U);
  EXPECT_EQ(ask(200), 2U);
  EXPECT_EQ(ask(421), 2U);
  EXPECT_EQ(ask(200), 3U);
  EXPECT_EQ(ask(200), 3U);
}

}  // namespace
}  // namespace harpe
