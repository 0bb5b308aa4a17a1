#pragma once
/// \file
/// Hands requests on to another server of the same kind, and its responses back, streams of events
/// included. Connections are kept and used again.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/net/http/http_message.h"
#include "harpe/net/http/server_loop.h"

namespace harpe::net {

/// On the thread of its loop.
class HttpForwarder {
 public:
  struct Options {
    Seconds timeout;  ///< for the other server to be reached and to begin its response
    /// PEM of certificates to trust beside the system's, for servers that speak TLS; empty: none.
    std::filesystem::path trusted = {};
    /// Tokens may travel unencrypted to any address: the operator has said that the network is
    /// trusted. Otherwise http:// with a token leads to loopback addresses alone.
    bool trusted_network = false;
    /// Requests whose response may come any time later: for them the other server only has to be
    /// reached in time.
    std::function<bool(const HttpRequest&)> may_wait = {};
    /// What shows the other server that a request is handed on by one of its kind, and for whom.
    std::function<std::string(const HttpRequest&)> token_of = {};
    std::size_t largest_response = 256 * 1024 * 1024;  ///< bytes
    std::size_t buffered = 256 * 1024 * 1024;          ///< bytes of responses held at once
  };

  /// `kIo`: the certificates cannot be read.
  static Result<HttpForwarder> create(ServerLoop& loop, const Options& options);
  HttpForwarder(HttpForwarder&&) noexcept;
  HttpForwarder& operator=(HttpForwarder&&) noexcept;
  ~HttpForwarder();

  using Answered = std::function<void(Result<HttpResponse>)>;
  /// Asks the server at `url` ("http://HOST:PORT" or "https://HOST:PORT") for what `request` asks
  /// for, marked so that it is not handed on again. Responds once: with the response of the
  /// other server, or `kUnavailable` where it cannot be reached in time or sends something else
  /// than HTTP. A request that met the end of a kept connection is sent again: it must be harmless
  /// twice. A stream of events ends when the other server ends it. A request whose client leaves is
  /// given up, without a response.
  void forward(const std::string& url, const HttpRequest& request, Answered answered);

  struct State;

 private:
  explicit HttpForwarder(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace harpe::net
