#pragma once
/// \file
/// One HTTP request and the response to it, apart from any transport.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/net/service/peer.h"

namespace harpe::net {

/// Whether the client of a request still waits for its response. On the thread of the loop that the
/// request was read on.
class ClientPresence {
 public:
  bool has_left() const { return has_left_; }
  /// Calls `work` once when the client leaves before the response; now if it has left. It must
  /// not own what owns this.
  void when_left(std::function<void()> work);
  /// For the connection.
  void leave();

 private:
  bool has_left_ = false;
  std::vector<std::function<void()>> work_;
};

struct HttpRequest {
  std::string method;         ///< "GET"
  std::string path;           ///< "/gpu/get_power", as it was sent
  std::string query;          ///< after "?", still encoded
  std::string authorization;  ///< the header's value; empty: none
  std::string body;
  int version = 11;  ///< 10 or 11
  bool keep_alive = true;
  std::string client;              ///< what connections are counted by: a user, or an address
  Peer peer;                       ///< as the kernel says; the token's part is added by the API
  bool needs_token = false;        ///< the listener it came through asks for one
  bool forwarded = false;          ///< another server, or so it says, asks on behalf of its client
  std::string forward_token = {};  ///< what it shows for that
  std::shared_ptr<ClientPresence> presence = {};  ///< null where no connection waits
};

/// A body that goes on until the client leaves: server-sent events. Thread-safe.
class EventStream {
 public:
  virtual ~EventStream() = default;
  /// `wake` is called from any thread whenever `take` may have something; it does not block and
  /// may be called after the client has gone.
  virtual void start(std::function<void()> wake) = 0;
  /// What to send now; empty: nothing yet. Only the newest values are kept for a slow client.
  virtual std::string take() = 0;
  /// Whether nothing will come any more once `take` gave nothing: the connection then ends.
  virtual bool ended() const { return false; }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<EventStream> stream = {};  ///< in place of a body
  /// Called by the transport right before it sends this, which it may change: what was true when
  /// the response was made may be so no more.
  std::function<void(HttpResponse&)> before_sending = {};
};

/// Responds to one request; called once, from any thread.
using Reply = std::function<void(HttpResponse)>;
/// Must not block.
using HttpHandler = std::function<void(HttpRequest, Reply)>;

/// "Not Found"; "Status" for one that has no usual name.
const char* reason_phrase(int status);

/// The response's first line and header as bytes of HTTP/1.1. \param keep_alive  whether the
/// connection stays open.
std::string http_head(const HttpResponse& response, int version, bool keep_alive);
/// With its body, if it is no stream.
std::string http_text(const HttpResponse& response, int version, bool keep_alive);

}  // namespace harpe::net
