#pragma once
/// \file
/// The connection to a server over HTTP or HTTPS: requests, and one stream of events. Only `step`
/// waits for the server, and no longer than its argument. Connections are reused, except after a
/// response that shows that this server cannot answer (5xx, 421).

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
  std::string server = {};  ///< "https://harpe.example:7787", without a path
  /// Socket to connect to instead of the server's host and port and of any proxy; empty: none.
  std::filesystem::path unix_socket = {};
  std::string token = {};  ///< sent as a bearer token; empty: none
  /// File that holds the token, instead of `token`. It is read again whenever it has changed. While
  /// it cannot be read, the last token stays in use.
  std::filesystem::path token_file = {};
  /// True if the token may be sent unencrypted to any address, because the user trusts the network.
  /// Otherwise http:// with a token connects only to loopback addresses and uses no proxy.
  bool trusted_network = false;
  std::filesystem::path ca_file =
      {};               ///< certificates to trust instead of the system's; empty: the system's
  Seconds timeout{10};  ///< from a request to the end of its response
  /// A stream that is silent for this long counts as dead. Servers send a comment more often.
  Seconds silence{60};
};

/// The reason why a request has no response.
enum class HttpFailure : unsigned char {
  kNone,          ///< it has a response
  kNoConnection,  ///< nothing listens there
  kNoResponse,    ///< silence, or the connection was closed
  kBadResponse    ///< the response is not HTTP, or too long
};

/// The response, or the reason why there is none.
struct HttpResult {
  int status = 0;       ///< 0 if there is no response
  std::string body;     ///< at most `kLongestResponse` bytes
  std::string failure;  ///< why there is no response
  HttpFailure cause = HttpFailure::kNone;
};
inline constexpr std::size_t kLongestResponse = std::size_t{1} << 24;

/// Used by one thread, except `wake`. `step` calls the callbacks, which may send and listen.
class HttpLink {
 public:
  /// Fails if the URL is neither http:// nor https://.
  static Result<std::unique_ptr<HttpLink>> open(HttpLinkOptions options);
  virtual ~HttpLink() = default;

  /// \param method  "GET", "PUT", "POST"
  /// \param path    with its query, beginning with the slash
  virtual void send(const std::string& method, const std::string& path, std::string body,
                    std::function<void(HttpResult)> done) = 0;
  /// Opens the stream, instead of the current one. Calls `ended` once, when the stream ends or the
  /// response has no stream.
  virtual void listen(const std::string& path, std::function<void(std::string_view)> bytes,
                      std::function<void(HttpResult)> ended) = 0;
  virtual void stop_listening() = 0;

  /// Reads the token again. Returns true if it differs from that of the last request.
  virtual bool renew_token() = 0;

  /// Sends and receives. Returns when something has arrived, after `wake`, or after `longest`.
  virtual void step(Seconds longest) = 0;
  virtual void wake() = 0;  ///< thread-safe
};

}  // namespace harpe::net
