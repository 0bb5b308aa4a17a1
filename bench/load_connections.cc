#include "load_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::bench {
namespace {

constexpr std::size_t kMostBuffered = 64 << 20;

sockaddr_in address_of(const std::string& address, int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

/// Returns an address of the node. All of 127.0.0.0/8 is this machine.
std::string address_of_node(int node) {
  return "127.1." + std::to_string(node / 250 % 250) + "." + std::to_string(node % 250 + 1);
}

/// Returns the value of a header. `head` ends with the empty line.
std::optional<std::string_view> header(std::string_view head, std::string_view name) {
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size();
       at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() > name.size() && line[name.size()] == ':' &&
        lower(line.substr(0, name.size())) == name) {
      return trim(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

LoadConnections::LoadConnections(std::string address, int port, Handlers handlers)
    : address_(std::move(address)),
      port_(port),
      handlers_(std::move(handlers)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

LoadConnections::~LoadConnections() {
  for (const Connection& connection : connections_) {
    if (connection.fd >= 0) ::close(connection.fd);
  }
  ::close(epoll_);
}

Result<int> LoadConnections::open(int node) {
  const auto failed = [](const char* what) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string(what) + ": " + std::generic_category().message(errno));
  };
  Connection connection;
  connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection.fd < 0) return failed("socket");
  const int on = 1;
  ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (address_.starts_with("127.")) {
    // The port is chosen on connect, so that one address has enough ports.
    ::setsockopt(connection.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    const sockaddr_in from = address_of(address_of_node(node), 0);
    if (::bind(connection.fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
      return failed("bind");
    }
  }
  const sockaddr_in to = address_of(address_, port_);
  if (::connect(connection.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
      errno != EINPROGRESS) {
    return failed("connect");
  }
  const int id = static_cast<int>(connections_.size());
  connection.told_to_write = true;
  epoll_event event{.events = EPOLLIN | EPOLLOUT, .data = {.u32 = static_cast<std::uint32_t>(id)}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event) != 0) return failed("epoll_ctl");
  connections_.push_back(std::move(connection));
  return id;
}

void LoadConnections::ask(int id, std::string_view method, const std::string& path,
                          std::string_view body) {
  std::string text(method);
  text += " " + path + " HTTP/1.1\r\nHost: " + address_ +
          "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
          "\r\n\r\n";
  text += body;
  Connection& connection = connections_[static_cast<std::size_t>(id)];
  if (connection.asking) {
    connection.waiting.push_back(std::move(text));
  } else {
    connection.asking = true;
    send(id, std::move(text));
  }
}

void LoadConnections::subscribe(int id, const std::string& path) {
  connections_[static_cast<std::size_t>(id)].stream = true;
  // HTTP/1.0: events arrive as they are, not in chunks.
  send(id,
       "GET " + path + " HTTP/1.0\r\nHost: " + address_ + "\r\nAccept: text/event-stream\r\n\r\n");
}

void LoadConnections::send(int id, std::string_view text) {
  Connection& connection = connections_[static_cast<std::size_t>(id)];
  connection.out += text;
  if (!connection.told_to_write) flush(id);
}

void LoadConnections::flush(int id) {
  Connection& connection = connections_[static_cast<std::size_t>(id)];
  while (!connection.out.empty()) {
    const ssize_t size =
        ::send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno != EAGAIN) return end(id, std::generic_category().message(errno));
    if (size < 0) break;
    connection.out.erase(0, static_cast<std::size_t>(size));
  }
  const bool wanted = !connection.out.empty();
  if (wanted == connection.told_to_write) return;
  connection.told_to_write = wanted;
  epoll_event event{.events = EPOLLIN | (wanted ? std::uint32_t{EPOLLOUT} : 0U),
                    .data = {.u32 = static_cast<std::uint32_t>(id)}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
}

void LoadConnections::poll(int milliseconds) {
  std::array<epoll_event, 512> events{};
  while (true) {
    const int count =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), milliseconds);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const int id = static_cast<int>(event.data.u32);
      if ((event.events & EPOLLOUT) != 0) flush(id);
      if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) receive(id);
    }
    if (count < static_cast<int>(events.size())) return;
    milliseconds = 0;
  }
}

void LoadConnections::receive(int id) {
  while (true) {
    Connection& connection = connections_[static_cast<std::size_t>(id)];
    if (connection.fd < 0) return;
    const ssize_t size = ::recv(connection.fd, buffer_.data(), buffer_.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) return end(id, std::generic_category().message(errno));
    if (size == 0) return end(id, "the server closed it");
    connection.in.append(buffer_.data(), static_cast<std::size_t>(size));
    connection.stream ? take_events(id) : take_responses(id);
    if (connections_[static_cast<std::size_t>(id)].in.size() > kMostBuffered) {
      return end(id, "a response without an end");
    }
    if (static_cast<std::size_t>(size) < buffer_.size()) return;
  }
}

void LoadConnections::take_responses(int id) {
  while (true) {
    Connection& connection = connections_[static_cast<std::size_t>(id)];
    const std::string_view in = connection.in;
    const std::size_t head_end = in.find("\r\n\r\n");
    if (head_end == std::string_view::npos) return;
    const std::string_view head = in.substr(0, head_end + 4);
    const auto status = parse_integer(head.substr(std::min<std::size_t>(9, head.size()), 3));
    const auto length_text = header(head, "content-length");
    const std::int64_t length = length_text ? parse_integer(*length_text).value_or(-1) : -1;
    if (!head.starts_with("HTTP/1.") || !status || length < 0) return end(id, "no HTTP response");
    const std::size_t whole = head.size() + static_cast<std::size_t>(length);
    if (in.size() < whole) return;
    const std::string body(in.substr(head.size(), static_cast<std::size_t>(length)));
    connection.in.erase(0, whole);
    connection.asking = !connection.waiting.empty();
    if (connection.asking) {
      std::string next = std::move(connection.waiting.front());
      connection.waiting.pop_front();
      send(id, std::move(next));
    }
    handlers_.answered(id, static_cast<int>(*status), body);
  }
}

void LoadConnections::take_events(int id) {
  Connection& connection = connections_[static_cast<std::size_t>(id)];
  if (connection.in.starts_with("HTTP/")) {
    const std::size_t head_end = connection.in.find("\r\n\r\n");
    if (head_end == std::string::npos) return;
    if (connection.in.substr(9, 3) != "200") return end(id, connection.in.substr(0, 200));
    connection.in.erase(0, head_end + 4);
  }
  std::size_t done = 0;
  while (true) {
    const std::string_view in = std::string_view(connection.in).substr(done);
    const std::size_t event_end = in.find("\n\n");
    if (event_end == std::string_view::npos) break;
    std::string_view name, data;
    for (std::string_view rest = in.substr(0, event_end); !rest.empty();) {
      const std::size_t line_end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, line_end);
      if (line.starts_with("event: ")) name = line.substr(7);
      if (line.starts_with("data: ")) data = line.substr(6);
      rest.remove_prefix(std::min(line_end + 1, rest.size()));
    }
    if (!name.empty()) handlers_.happened(id, name, data);
    done += event_end + 2;
  }
  connection.in.erase(0, done);
}

void LoadConnections::end(int id, const std::string& why) {
  Connection& connection = connections_[static_cast<std::size_t>(id)];
  if (connection.fd < 0) return;
  ::close(std::exchange(connection.fd, -1));
  connection.out.clear();
  connection.told_to_write = true;  // nothing more is sent
  handlers_.lost(id, why);
}

Result<LoadResponse> ask_once(const std::string& address, int port, std::string_view method,
                              const std::string& path, std::string_view body) {
  std::optional<LoadResponse> response;
  std::string why = "no response for 60 s";
  bool ended = false;
  LoadConnections one(address, port,
                      {.answered =
                           [&](int, int status, std::string_view text) {
                             response = LoadResponse{status, std::string(text)};
                           },
                       .happened = [](int, std::string_view, std::string_view) {},
                       .lost =
                           [&](int, const std::string& reason) {
                             why = reason;
                             ended = true;
                           }});
  const int id = HARPE_TRY(one.open(0));
  one.ask(id, method, path, body);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!response && !ended && std::chrono::steady_clock::now() < deadline) one.poll(100);
  if (!response) {
    return Error::of(ErrorCode::kUnavailable, std::string(method) + " " + path + ": " + why);
  }
  return *std::move(response);
}

}  // namespace harpe::bench
