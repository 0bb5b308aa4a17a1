#pragma once
/// \file
/// Forwarder of requests to another server of the same kind, and of its responses, including
/// streams of events. Connections are reused.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/net/http/http_message.h"
#include "harpe/net/http/server_loop.h"

namespace harpe::net {

/// Used only on the thread of its loop.
class HttpForwarder {
 public:
  struct Options {
    Seconds timeout;  ///< for connecting and for the start of the response
    /// PEM file of certificates to trust beside the system's, for servers with TLS; empty: none.
    std::filesystem::path trusted = {};
    /// True if tokens may be sent unencrypted to any address, because the operator trusts the
    /// network. Otherwise http:// with a token connects only to loopback addresses.
    bool trusted_network = false;
    /// Returns true for requests whose response may take any time: for them the timeout applies
    /// only to connecting and sending.
    std::function<bool(const HttpRequest&)> may_wait = {};
    /// Returns the proof that a server forwards this request, and for which client.
    std::function<std::string(const HttpRequest&)> token_of = {};
    std::size_t largest_response = 256 * 1024 * 1024;  ///< bytes
    std::size_t buffered = 256 * 1024 * 1024;          ///< of responses held at once, in bytes
  };

  /// Fails with `kIo` if the certificates cannot be read.
  static Result<HttpForwarder> create(ServerLoop& loop, const Options& options);
  HttpForwarder(HttpForwarder&&) noexcept;
  HttpForwarder& operator=(HttpForwarder&&) noexcept;
  ~HttpForwarder();

  using Answered = std::function<void(Result<HttpResponse>)>;
  /// Forwards `request` to the server at `url` ("http://HOST:PORT" or "https://HOST:PORT"), marked
  /// so that it is not forwarded again. Calls `answered` once: with the response of the other
  /// server, or with `kUnavailable` if it cannot be reached in time or does not send HTTP. If a
  /// reused connection ends, the request is sent again, so it must be harmless twice. A stream of
  /// events ends when the other server ends it. If the client leaves, the request is cancelled and
  /// `answered` is not called.
  void forward(const std::string& url, const HttpRequest& request, Answered answered);

  struct State;

 private:
  explicit HttpForwarder(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace harpe::net
