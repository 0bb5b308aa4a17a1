// A link to a server over real sockets. The test sends the responses.

#include "harpe/net/http_client/http_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace harpe::net {
namespace {

/// A port or a Unix socket, and its connections.
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
    options_.server = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  explicit Listening(const std::string& path, int queue = 8)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd_, queue), 0);
    options_.server = "http://localhost";
    options_.unix_socket = path;
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    for (const int fd : connections_) ::close(fd);
    ::close(fd_);
    if (!options_.unix_socket.empty()) std::filesystem::remove(options_.unix_socket);
  }

  /// Returns the options of a link to this server.
  const HttpLinkOptions& options() const { return options_; }
  std::size_t connections() const { return connections_.size(); }

  struct Request {
    int connection = -1;
    std::string text = {};
  };
  /// Returns the next request, on any connection.
  Request next(HttpLink& link) {
    for (int i = 0; i < 2000; ++i) {
      link.step(Seconds{0.005});
      if (pollfd ready{fd_, POLLIN, 0}; ::poll(&ready, 1, 0) > 0) {
        connections_.push_back(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
      }
      for (const int connection : connections_) {
        char bytes[4096];
        const ssize_t size = ::recv(connection, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size > 0) return {connection, std::string(bytes, static_cast<std::size_t>(size))};
      }
    }
    ADD_FAILURE() << "no request has come";
    return {};
  }

 private:
  int fd_;
  HttpLinkOptions options_;
  std::vector<int> connections_;
};

void send_text(int connection, const std::string& text) {
  ASSERT_EQ(::send(connection, text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

std::string response(int status, const std::string& body = "{}") {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The result of a request, and the wait for it.
struct Outcome {
  std::optional<HttpResult> result;

  std::function<void(HttpResult)> taker() {
    return [this](HttpResult got) { result = std::move(got); };
  }
  const HttpResult& wait(HttpLink& link) {
    while (!result) link.step(Seconds{0.01});
    return *result;
  }
};

std::string socket_path() {
  return ::testing::TempDir() + "harpe_link_" + std::to_string(::getpid());
}

TEST(HttpLink, UsesItsConnectionAgainButLooksForAnotherServerWhereOneCannotAnswer) {
  Listening server;
  const auto link = *HttpLink::open(server.options());
  const auto ask = [&](int status) {
    Outcome outcome;
    link->send("GET", "/", {}, outcome.taker());
    send_text(server.next(*link).connection, response(status));
    EXPECT_EQ(outcome.wait(*link).status, status) << outcome.result->failure;
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

TEST(HttpLink, LeadsThroughAUnixSocketAndNoProxy) {
  ASSERT_EQ(::setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
  ASSERT_EQ(::setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
  Listening server(socket_path());
  const auto link = *HttpLink::open(server.options());
  Outcome outcome;
  link->send("DELETE", "/v1/leases/1", {}, outcome.taker());
  const Listening::Request request = server.next(*link);
  EXPECT_TRUE(request.text.starts_with("DELETE /v1/leases/1 HTTP/1.1\r\n")) << request.text;
  send_text(request.connection, response(200));
  EXPECT_EQ(outcome.wait(*link).status, 200) << outcome.result->failure;
  ::unsetenv("http_proxy");
  ::unsetenv("all_proxy");
}

TEST(HttpLink, GivesEachRequestItsOwnResponseInWhateverOrderTheyCome) {
  Listening server(socket_path());
  const auto link = *HttpLink::open(server.options());
  Outcome first, second;
  link->send("GET", "/first", {}, first.taker());
  const Listening::Request first_request = server.next(*link);
  link->send("GET", "/second", {}, second.taker());
  const Listening::Request second_request = server.next(*link);
  ASSERT_NE(first_request.connection, second_request.connection);
  send_text(second_request.connection, response(200, "two"));
  EXPECT_EQ(second.wait(*link).body, "two");
  EXPECT_FALSE(first.result);
  send_text(first_request.connection, response(200, "one"));
  EXPECT_EQ(first.wait(*link).body, "one");
}

TEST(HttpLink, SaysWhyThereIsNoResponse) {
  HttpLinkOptions nowhere;
  nowhere.server = "http://localhost";
  nowhere.unix_socket = socket_path();
  const auto closed = *HttpLink::open(nowhere);
  Outcome refused;
  closed->send("GET", "/", {}, refused.taker());
  EXPECT_EQ(refused.wait(*closed).cause, HttpFailure::kNoConnection);
  EXPECT_EQ(refused.result->failure, "No such file or directory");

  {
    Listening busy(socket_path(), 0);
    const auto link = *HttpLink::open(busy.options());
    Outcome first, second;
    link->send("GET", "/", {}, first.taker());
    link->send("GET", "/", {}, second.taker());
    EXPECT_EQ(second.wait(*link).cause, HttpFailure::kNoResponse) << "there is place for one";
    EXPECT_EQ(second.result->failure, "too many connections wait for it");
    EXPECT_FALSE(first.result);
  }
  Listening server(socket_path());
  HttpLinkOptions options = server.options();
  const auto cause_of = [&](const std::string& bytes, bool closes) {
    const auto link = *HttpLink::open(options);
    Outcome outcome;
    link->send("GET", "/", {}, outcome.taker());
    const int connection = server.next(*link).connection;
    send_text(connection, bytes);
    if (closes) ::shutdown(connection, SHUT_RDWR);
    EXPECT_EQ(outcome.wait(*link).status, 0) << bytes;
    EXPECT_NE(outcome.result->failure, "") << bytes;
    return outcome.result->cause;
  };
  EXPECT_EQ(cause_of("", true), HttpFailure::kNoResponse);
  EXPECT_EQ(cause_of("HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n{", true),
            HttpFailure::kNoResponse);
  EXPECT_EQ(cause_of("SSH-2.0-OpenSSH\r\n", false), HttpFailure::kBadResponse);
  EXPECT_EQ(cause_of("HTTP/1.1 200 X\r\nContent-Length: many\r\n\r\n", false),
            HttpFailure::kBadResponse);
  options.timeout = Seconds{0.05};
  EXPECT_EQ(cause_of("", false), HttpFailure::kNoResponse);
  EXPECT_EQ(cause_of("HTTP/1.1 200 X\r\n", false), HttpFailure::kNoResponse);
}

TEST(HttpLink, KeepsItsConnectionsFromProgramsThatTheProcessStarts) {
  Listening server;
  const auto link = *HttpLink::open(server.options());
  Outcome outcome;
  link->send("GET", "/", {}, outcome.taker());
  const int accepted = server.next(*link).connection;
  int ends = 0;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET) continue;
    ++ends;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << (fd == accepted ? "the test's end" : "");
  }
  EXPECT_EQ(ends, 2) << "of the one connection";
}

}  // namespace
}  // namespace harpe::net
