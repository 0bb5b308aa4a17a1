#pragma once
/// \file
/// HTTP request and response, independent of any transport.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/net/service/peer.h"

namespace harpe::net {

/// The presence of a request's client: whether it still waits for the response. Used only on the
/// thread of the loop that read the request.
class ClientPresence {
 public:
  bool has_left() const { return has_left_; }
  /// Calls `work` once if the client leaves before the response; at once if it has left. `work`
  /// must not own the owner of this object.
  void when_left(std::function<void()> work);
  /// Marks the client as gone. For the connection only.
  void leave();

 private:
  bool has_left_ = false;
  std::vector<std::function<void()>> work_;
};

struct HttpRequest {
  std::string method;         ///< "GET"
  std::string path;           ///< "/gpu/get_power", as received
  std::string query;          ///< after "?", still encoded
  std::string authorization;  ///< value of the header; empty if there is none
  std::string body;
  int version = 11;  ///< 10 or 11
  bool keep_alive = true;
  std::string client;        ///< user or address that its connections are counted under
  Peer peer;                 ///< as reported by the kernel; the API adds the token's part
  bool needs_token = false;  ///< true if its listener requires a token
  /// True if the sender claims to be a server that forwards the request.
  bool forwarded = false;
  std::string forward_token = {};                 ///< proof of that claim
  std::shared_ptr<ClientPresence> presence = {};  ///< null if no connection waits
};

/// A response body without an end, until the client leaves: server-sent events. Thread-safe.
class EventStream {
 public:
  virtual ~EventStream() = default;
  /// Starts the stream. It calls `wake` from any thread when `take` may have an event. `wake` does
  /// not block, and may be called after the client has left.
  virtual void start(std::function<void()> wake) = 0;
  /// Returns the text to send now; empty if there is none yet. Keeps only the newest values for a
  /// slow client.
  virtual std::string take() = 0;
  /// Returns true if no more events will follow once `take` returns an empty text; then the
  /// connection ends.
  virtual bool ended() const { return false; }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<EventStream> stream = {};  ///< instead of a body
  /// Called by the transport right before it sends the response. May change the response, because
  /// facts may have changed since it was made.
  std::function<void(HttpResponse&)> before_sending = {};
};

/// Sends the response to one request; called once, from any thread.
using Reply = std::function<void(HttpResponse)>;
/// Handles a request. Must not block.
using HttpHandler = std::function<void(HttpRequest, Reply)>;

/// Returns, for example, "Not Found"; "Status" for a status without a standard name.
const char* reason_phrase(int status);

/// Returns the first line and the header of the response in HTTP/1.1.
/// \param keep_alive  the connection stays open
std::string http_head(const HttpResponse& response, int version, bool keep_alive);
/// Returns the head and the body, unless the body is a stream.
std::string http_text(const HttpResponse& response, int version, bool keep_alive);

}  // namespace harpe::net
