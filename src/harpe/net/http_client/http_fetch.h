#pragma once
/// \file
/// One request for a page of another party's server, waited for: request and response headers, a
/// limit of bytes, redirects that lead nowhere else, and secrets that no message shows.
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

/// A GET.
struct HttpFetch {
  std::string url = {};  ///< with its query
  HttpHeaders headers = {};
  /// What of the URL and the headers must appear in no message. With any, http:// connects to
  /// loopback addresses alone and uses no proxy, at each redirect.
  std::vector<std::string> secrets = {};
  Seconds timeout{10};                     ///< from the request to the end of the response
  std::size_t longest = kLongestResponse;  ///< bytes of the body, after decompression
  std::filesystem::path ca_file = {};      ///< certificates to trust in place of the system's
};

struct HttpFetched {
  int status = 0;  ///< 0: nothing came
  std::string body = {};
  HttpHeaders headers = {};  ///< names in lower case
  std::string failure = {};  ///< why nothing came, without secrets
  HttpFailure cause = HttpFailure::kNone;

  /// Of the last header of that name (lower case); empty where there is none.
  std::string header(std::string_view name) const;
};

/// Used by one thread. Connections are used again. Responses may be compressed.
class HttpFetcher {
 public:
  static Result<std::unique_ptr<HttpFetcher>> open();
  virtual ~HttpFetcher() = default;
  /// Follows up to 3 redirects, by the rule of `redirect_problem`.
  virtual HttpFetched fetch(const HttpFetch& request) = 0;
};

/// Why a redirect must not be followed; empty: it may. It stays on the same host, and keeps the
/// port where it keeps the scheme; it may go from http to https and not back: headers with tokens
/// travel with it.
std::string redirect_problem(const std::string& from, const std::string& to);

/// "https://api.example/v1/now": a URL without user, query and fragment, for messages.
std::string url_for_messages(const std::string& url);

/// Of a Retry-After header, seconds or a date: how long from `now`, at least 0; nullopt where it is
/// neither.
std::optional<Seconds> parse_retry_after(const std::string& text, std::chrono::sys_seconds now);

}  // namespace harpe::net
