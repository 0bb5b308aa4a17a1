#pragma once
/// \file
/// One connection of the HTTP server. Only for its `.cc` files.

#include <memory>
#include <string>
#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>

#include "harpe/http/http_server.h"

namespace harpe {

class ConnectionBase {
 public:
  virtual ~ConnectionBase() = default;
  virtual void start() = 0;
  virtual void close() = 0;
};

/// What connections need of their server.
struct ConnectionHost {
  ConnectionHost(boost::asio::io_context& given_context, HttpHandler given_handler,
                 HttpLimits given_limits)
      : context(given_context),
        handler(std::move(given_handler)),
        limits(std::move(given_limits)) {}
  virtual ~ConnectionHost() = default;
  /// A connection has ended; `key` is what it was counted by.
  virtual void closed(const ConnectionBase& connection, const std::string& key) = 0;

  boost::asio::io_context& context;
  HttpHandler handler;
  HttpLimits limits;
};

/// The host must outlive the last use of the connection: it calls `close` on all it still has.
std::shared_ptr<ConnectionBase> make_connection(
    ConnectionHost& host, boost::asio::generic::stream_protocol::socket socket, Peer peer,
    std::string key, bool needs_token);
std::shared_ptr<ConnectionBase> make_tls_connection(
    ConnectionHost& host, boost::asio::generic::stream_protocol::socket socket,
    boost::asio::ssl::context& tls, Peer peer, std::string key, bool needs_token);

}  // namespace harpe
