#pragma once
/// \file
/// Hands requests on to another server of the same kind, and its answers back, streams of events
/// included. Connections are kept and used again.

#include <memory>
#include <string>

#include "harpe/base/units.h"
#include "harpe/http/http_message.h"
#include "harpe/http/server_loop.h"

namespace harpe {

/// On the thread of its loop.
class HttpForwarder {
 public:
  /// \param timeout  for the other server to be reached and to begin its answer
  HttpForwarder(ServerLoop& loop, Seconds timeout);
  ~HttpForwarder();
  HttpForwarder(const HttpForwarder&) = delete;
  HttpForwarder& operator=(const HttpForwarder&) = delete;

  /// Asks the server at `url` ("http://HOST:PORT") for what `request` asks for, marked so that it
  /// is not handed on again, and replies with its answer; with 503 where it cannot be reached in
  /// time, or its answer is none. A request that met the end of a kept connection is sent again:
  /// it must be harmless twice. A stream of events ends when the other server ends it.
  void forward(const std::string& url, HttpRequest request, Reply reply);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace harpe
