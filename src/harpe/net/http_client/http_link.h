#pragma once
/// \file
/// The way to a server over HTTP or HTTPS: requests, and one stream of events. Nothing here waits
/// for the server but `step`, and that no longer than it is told. Connections are used again, but
/// after a response that says that this server cannot answer (5xx, 421).

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::net {

struct HttpLinkOptions {
  std::string server = {};  ///< "https://harpe.example:7787", no path
  /// Leads to the server in place of its host and port, and of any proxy; empty: they do.
  std::filesystem::path unix_socket = {};
  std::string token = {};  ///< sent as a bearer token; empty: none
  /// Holds the token, in place of `token`: read again whenever the file has changed. While it
  /// cannot be read, what was read before counts.
  std::filesystem::path token_file = {};
  /// Sends the token unencrypted to any address: the user has said that the network is trusted.
  /// Otherwise http:// with a token connects to loopback addresses alone and uses no proxy.
  bool trusted_network = false;
  std::filesystem::path ca_file =
      {};               ///< certificates to trust in place of the system's; empty: those
  Seconds timeout{10};  ///< from a request to the end of its response
  /// A stream that is silent for so long is dead. Servers send something (a comment) more often.
  Seconds silence{60};
};

/// Why a request has no response.
enum class HttpFailure : unsigned char {
  kNone,          ///< it has one
  kNoConnection,  ///< nothing listens there
  kNoResponse,    ///< silence, or a connection that was closed
  kBadResponse    ///< what came is not HTTP, or too long
};

/// What came back.
struct HttpResult {
  int status = 0;       ///< 0: nothing did
  std::string body;     ///< `kLongestResponse` bytes at most
  std::string failure;  ///< why nothing did
  HttpFailure cause = HttpFailure::kNone;
};
inline constexpr std::size_t kLongestResponse = std::size_t{1} << 24;

/// Used by one thread, but for `wake`. Callbacks are called by `step` and may send and listen.
class HttpLink {
 public:
  /// Fails on a URL that is neither http:// nor https://.
  static Result<std::unique_ptr<HttpLink>> open(HttpLinkOptions options);
  virtual ~HttpLink() = default;

  /// \param method  "GET", "PUT", "POST"
  /// \param path    with its query, from the slash on
  virtual void send(const std::string& method, const std::string& path, std::string body,
                    std::function<void(HttpResult)> done) = 0;
  /// Opens the stream, in place of one that is open. `ended` is told once, of a response without a
  /// body or of the end of one.
  virtual void listen(const std::string& path, std::function<void(std::string_view)> bytes,
                      std::function<void(HttpResult)> ended) = 0;
  virtual void stop_listening() = 0;

  /// Reads the token again; whether the next request shows another one than the last.
  virtual bool renew_token() = 0;

  /// Moves everything on; returns when something came in, `wake` was called, or time is over.
  virtual void step(Seconds longest) = 0;
  virtual void wake() = 0;  ///< thread-safe
};

}  // namespace harpe::net
