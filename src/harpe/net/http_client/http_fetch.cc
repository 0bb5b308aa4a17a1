#include "harpe/net/http_client/http_fetch.h"

#include <curl/curl.h>

#include <algorithm>
#include <cmath>

#include "harpe/base/text.h"
#include "harpe/net/http_client/authorities.h"
#include "harpe/net/http_client/clear_text.h"

namespace harpe::net {
namespace {

constexpr int kMostRedirects = 3;
constexpr std::size_t kMostHeaders = 200;

struct CleanFetch {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeFetchHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

/// The parts of a URL; `scheme` is empty if the text is not a URL.
struct UrlParts {
  std::string scheme, host, port, path;
};

UrlParts parts_of(const std::string& text) {
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return {};
  const auto part = [&](CURLUPart which) {
    char* value = nullptr;
    if (curl_url_get(url.get(), which, &value, CURLU_DEFAULT_PORT) != CURLUE_OK) {
      return std::string();
    }
    std::string copy = value;
    curl_free(value);
    return copy;
  };
  return {.scheme = lower(part(CURLUPART_SCHEME)),
          .host = lower(part(CURLUPART_HOST)),
          .port = part(CURLUPART_PORT),
          .path = part(CURLUPART_PATH)};
}

/// Returns the text without the secrets, which messages of libcurl or a server can repeat.
std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += 3) {
      text.replace(at, secret.size(), "***");
    }
  }
  return text;
}

/// The data that one transfer fills.
struct Arriving {
  HttpFetched fetched;
  std::size_t longest = 0;
  bool too_long = false;
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* pointer) {
  auto& arriving = *static_cast<Arriving*>(pointer);
  if (arriving.fetched.body.size() + size > arriving.longest) {
    arriving.too_long = true;
    return 0;  // ends the transfer
  }
  arriving.fetched.body.append(data, size);
  return size;
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* pointer) {
  HttpHeaders& headers = static_cast<Arriving*>(pointer)->fetched.headers;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) headers.clear();  // keeps only the final response, after a 100
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos && headers.size() < kMostHeaders) {
    headers.emplace_back(lower(line.substr(0, colon)), std::string(trim(line.substr(colon + 1))));
  }
  return size;
}

HttpFailure fetch_failure(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
      return HttpFailure::kNoConnection;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_WRITE_ERROR:
    case CURLE_BAD_CONTENT_ENCODING:
      return HttpFailure::kBadResponse;
    default:
      return HttpFailure::kNoResponse;
  }
}

HttpFetched refused(std::string why) {
  HttpFetched fetched;
  fetched.failure = std::move(why);
  fetched.cause = HttpFailure::kBadResponse;
  return fetched;
}

class CurlFetcher final : public HttpFetcher {
 public:
  explicit CurlFetcher(CURL* easy) : easy_(easy) {}

  HttpFetched fetch(const HttpFetch& request) override {
    const UrlParts url = parts_of(request.url);
    if (url.scheme != "http" && url.scheme != "https") return refused("it is not an HTTP URL");
    std::string at = request.url;
    for (int redirects = 0;; ++redirects) {
      std::string next;
      HttpFetched fetched = once(request, at, next);
      if (next.empty()) return fetched;
      if (redirects == kMostRedirects) {
        return refused("more than " + std::to_string(kMostRedirects) + " redirects");
      }
      const std::string problem = redirect_problem(at, next);
      if (!problem.empty()) return refused(without_secrets(problem, request.secrets));
      at = next;
    }
  }

 private:
  /// \param next  set to the target of a redirect; empty if there is none
  HttpFetched once(const HttpFetch& request, const std::string& url, std::string& next) {
    CURL* easy = easy_.get();
    curl_easy_reset(easy);  // keeps the connections
    std::unique_ptr<curl_slist, FreeFetchHeaders> headers;
    for (const auto& [name, value] : request.headers) {
      headers.reset(curl_slist_append(headers.release(), (name + ": " + value).c_str()));
    }
    Arriving arriving{.fetched = {}, .longest = request.longest};
    char error[CURL_ERROR_SIZE] = {};
    const long limit =
        static_cast<long>(std::clamp(std::ceil(request.timeout.value * 1000), 1.0, 1e9));
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");  // all encodings that libcurl decodes
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "harpe");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limit);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, limit);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &ClearTextGuard::open_socket);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &arriving);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &arriving);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, &error[0]);
    if (const std::string file = authorities_file(request.ca_file); !file.empty()) {
      curl_easy_setopt(easy, CURLOPT_CAINFO, file.c_str());
    }
    ClearTextGuard guard;
    if (!request.secrets.empty() && parts_of(url).scheme == "http") {
      guard.watch(easy);
      // No guard has checked a connection that is open already.
      curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    }
    const CURLcode code = curl_easy_perform(easy);
    // The error buffer's lifetime ends here.
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
    if (code != CURLE_OK && guard.refused()) {
      return refused(clear_text_refusal(url_for_messages(url)));
    }
    if (code != CURLE_OK) return failed(request, arriving, code, &error[0]);
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    arriving.fetched.status = static_cast<int>(status);
    const char* redirect = nullptr;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &redirect);
    if (redirect != nullptr) next = redirect;
    return std::move(arriving.fetched);
  }

  static HttpFetched failed(const HttpFetch& request, const Arriving& arriving, CURLcode code,
                            const char* error) {
    if (arriving.too_long) {
      return refused("the response is over " + std::to_string(request.longest) + " bytes");
    }
    HttpFetched fetched;
    fetched.failure =
        without_secrets(*error != 0 ? error : curl_easy_strerror(code), request.secrets);
    fetched.cause = fetch_failure(code);
    return fetched;
  }

  std::unique_ptr<CURL, CleanFetch> easy_;
};

}  // namespace

std::string HttpFetched::header(std::string_view name) const {
  std::string found;
  for (const auto& [key, value] : headers) {
    if (key == name) found = value;
  }
  return found;
}

Result<std::unique_ptr<HttpFetcher>> HttpFetcher::open() {
  [[maybe_unused]] static const CURLcode kOnce = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* easy = curl_easy_init();
  if (easy == nullptr) return Error::internal("libcurl cannot be used");
  return std::unique_ptr<HttpFetcher>(std::make_unique<CurlFetcher>(easy));
}

std::string redirect_problem(const std::string& from, const std::string& to) {
  const UrlParts here = parts_of(from), there = parts_of(to);
  const std::string refusal = "it redirects to " + url_for_messages(to) + ", ";
  if (there.scheme != "http" && there.scheme != "https") return refusal + "which is not HTTP";
  if (there.host != here.host) return refusal + "which is another host";
  if (here.scheme == "https" && there.scheme == "http") return refusal + "which is not encrypted";
  if (here.scheme == there.scheme && here.port != there.port) {
    return refusal + "which is another port";
  }
  return {};
}

std::string url_for_messages(const std::string& url) {
  const UrlParts parts = parts_of(url);
  if (parts.scheme.empty()) return "an invalid URL";
  const bool usual = (parts.scheme == "https" && parts.port == "443") ||
                     (parts.scheme == "http" && parts.port == "80");
  return parts.scheme + "://" + parts.host + (usual ? "" : ":" + parts.port) + parts.path;
}

std::optional<Seconds> parse_retry_after(const std::string& text, std::chrono::sys_seconds now) {
  if (const auto seconds = parse_integer(text)) {
    if (*seconds < 0) return std::nullopt;
    return Seconds{static_cast<double>(*seconds)};
  }
  const std::time_t at = curl_getdate(text.c_str(), nullptr);
  if (at < 0) return std::nullopt;
  const auto until = static_cast<double>(at - now.time_since_epoch().count());
  return Seconds{std::max(0.0, until)};
}

}  // namespace harpe::net
