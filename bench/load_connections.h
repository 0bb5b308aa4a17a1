#pragma once
/// \file
/// Many HTTP/1.1 connections to one server from one thread: requests, one at a time on each, and
/// streams of server-sent events.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::bench {

class LoadConnections {
 public:
  /// \param answered  the response to a request on connection `id`
  /// \param happened  an event on connection `id`: its data
  /// connection `id` ended, or received data that is not HTTP
  struct Handlers {
    std::function<void(int id, int status, std::string_view body)> answered;
    std::function<void(int id, std::string_view event, std::string_view data)> happened;
    std::function<void(int id, const std::string& why)> lost;
  };

  /// `address` is a numeric IPv4 address.
  LoadConnections(std::string address, int port, Handlers handlers);
  LoadConnections(const LoadConnections&) = delete;
  LoadConnections& operator=(const LoadConnections&) = delete;
  ~LoadConnections();

  /// Opens a connection. Returns its number, counted from 0. If the server is on this machine, each
  /// `node` connects from its own address, as ranks of different nodes do.
  Result<int> open(int node);

  /// Sends a request on a connection that is not a stream, after earlier requests there.
  void ask(int id, std::string_view method, const std::string& path, std::string_view body);
  /// Makes the connection a stream of events.
  void subscribe(int id, const std::string& path);

  /// Handles all data that has arrived or arrives within `milliseconds`.
  void poll(int milliseconds);

 private:
  struct Connection {
    int fd = -1;
    bool stream = false, asking = false, told_to_write = false;
    std::string in, out;
    std::deque<std::string> waiting;
  };

  void send(int id, std::string_view text);
  void flush(int id);
  void receive(int id);
  void take_responses(int id);
  void take_events(int id);
  void end(int id, const std::string& why);

  std::string address_;
  int port_;
  Handlers handlers_;
  int epoll_ = -1;
  std::vector<Connection> connections_;
  std::vector<char> buffer_ = std::vector<char>(1 << 16);
};

/// Sends one request on a new connection. Waits up to 60 s for the response.
struct LoadResponse {
  int status = 0;
  std::string body;
};
Result<LoadResponse> ask_once(const std::string& address, int port, std::string_view method,
                              const std::string& path, std::string_view body);

}  // namespace harpe::bench
