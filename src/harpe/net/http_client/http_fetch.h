#pragma once
/// \file
/// Blocking client of a single request to a third-party server, with request and response headers,
/// a limit of bytes, redirects within the same host only, and secrets that no message shows.
///
///   const auto fetcher = *harpe::net::HttpFetcher::open();
///   const harpe::net::HttpFetched page = fetcher->fetch({.url = "https://api.example/v1/now"});
///   if (page.status == 200) use(page.body);

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/net/http_client/http_link.h"

namespace harpe::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A GET request.
struct HttpFetch {
  std::string url = {};  ///< with its query
  HttpHeaders headers = {};
  /// Parts of the URL and the headers that must appear in no message. If there are any, http://
  /// connects only to loopback addresses and uses no proxy, at each redirect.
  std::vector<std::string> secrets = {};
  Seconds timeout{10};                     ///< from the request to the end of the response
  std::size_t longest = kLongestResponse;  ///< bytes of the body, after decompression
  /// Certificates to trust instead of the system's; empty: the system's.
  std::filesystem::path ca_file = {};
};

struct HttpFetched {
  int status = 0;  ///< 0 if there is no response
  std::string body = {};
  HttpHeaders headers = {};  ///< names in lower case
  std::string failure = {};  ///< why there is no response, without secrets
  HttpFailure cause = HttpFailure::kNone;

  /// Returns the value of the last header of that name (lower case); empty if there is none.
  std::string header(std::string_view name) const;
};

/// Used by one thread. Connections are reused. Responses may be compressed.
class HttpFetcher {
 public:
  static Result<std::unique_ptr<HttpFetcher>> open();
  virtual ~HttpFetcher() = default;
  /// Follows up to 3 redirects, by the rule of `redirect_problem`.
  virtual HttpFetched fetch(const HttpFetch& request) = 0;
};

/// Returns the reason why a redirect must not be followed; empty if it may. A redirect must stay on
/// the same host, and on the same port if it keeps the scheme. It may change from http to https but
/// not back, because headers with tokens are sent with it.
std::string redirect_problem(const std::string& from, const std::string& to);

/// Returns a URL without user, query and fragment, for messages: "https://api.example/v1/now".
std::string url_for_messages(const std::string& url);

/// Parses a Retry-After header, seconds or a date. Returns the time from `now`, at least 0; nullopt
/// if it is neither.
std::optional<Seconds> parse_retry_after(const std::string& text, std::chrono::sys_seconds now);

}  // namespace harpe::net
