#include "harpe/net/http_client/http_link.h"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/net/http_client/authorities.h"
#include "harpe/net/http_client/clear_text.h"
#include "harpe/net/http_client/token_file.h"

namespace harpe::net {
namespace {

struct CleanEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct CleanMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, CleanEasy>;
using List = std::unique_ptr<curl_slist, FreeList>;

/// One request in progress.
struct Exchange {
  Easy easy;
  List headers;
  std::string body;      ///< of the request
  std::string received;  ///< of the response; empty for a stream with status 200
  bool is_stream = false;
  std::function<void(std::string_view)> bytes;
  std::function<void(HttpResult)> done;
  ClearTextGuard guard;
  char error[CURL_ERROR_SIZE] = {};

  int status() const {
    long code = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

std::size_t receive(char* data, std::size_t, std::size_t size, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  if (exchange.is_stream && exchange.status() == 200) {
    exchange.bytes({data, size});
    return size;
  }
  if (exchange.received.size() + size > kLongestResponse) return 0;  // ends the transfer
  exchange.received.append(data, size);
  return size;
}

HttpFailure cause_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpFailure::kNone;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
      return HttpFailure::kNoConnection;
    case CURLE_UNSUPPORTED_PROTOCOL:  // no status line: HTTP/0.9, which is not allowed
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_WRITE_ERROR:  // `receive` rejects more bytes
    case CURLE_BAD_CONTENT_ENCODING:
      return HttpFailure::kBadResponse;
    default:
      return HttpFailure::kNoResponse;
  }
}

long milliseconds(Seconds time) {
  return static_cast<long>(std::clamp(std::ceil(time.value * 1000), 1.0, 1e9));
}

class CurlLink final : public HttpLink {
 public:
  CurlLink(HttpLinkOptions options, CURLM* multi)
      : options_(std::move(options)),
        guarded_(options_.server.starts_with("http://") && !options_.trusted_network &&
                 !(options_.token.empty() && options_.token_file.empty())),
        token_(std::move(options_.token), std::move(options_.token_file)),
        multi_(multi) {}
  ~CurlLink() override {
    for (const auto& exchange : exchanges_) {
      curl_multi_remove_handle(multi_.get(), exchange->easy.get());
    }
  }
  CurlLink(const CurlLink&) = delete;
  CurlLink& operator=(const CurlLink&) = delete;

  void send(const std::string& method, const std::string& path, std::string body,
            std::function<void(HttpResult)> done) override {
    auto exchange = make(path, std::move(done));
    CURL* easy = exchange->easy.get();
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method.c_str());
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(options_.timeout));
    if (method != "GET") {
      exchange->body = std::move(body);
      add_header(*exchange, "Content-Type: application/json");
      // Avoids a wait for "100 Continue".
      add_header(*exchange, "Expect:");
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(exchange->body.size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body.c_str());
    }
    start(std::move(exchange));
  }

  void listen(const std::string& path, std::function<void(std::string_view)> bytes,
              std::function<void(HttpResult)> ended) override {
    stop_listening();
    auto exchange = make(path, std::move(ended));
    exchange->is_stream = true;
    exchange->bytes = std::move(bytes);
    add_header(*exchange, "Accept: text/event-stream");
    CURL* easy = exchange->easy.get();
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                     std::max(1L, std::lround(options_.silence.value)));
    start(std::move(exchange));
  }

  void stop_listening() override {
    std::erase_if(exchanges_, [&](const std::unique_ptr<Exchange>& exchange) {
      if (!exchange->is_stream) return false;
      curl_multi_remove_handle(multi_.get(), exchange->easy.get());
      return true;
    });
  }

  bool renew_token() override {
    // While the token cannot be read, the previous one stays in use.
    (void)token_.read();
    return token_.current() != shown_;
  }

  void step(Seconds longest) override {
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    // Does not wait if a request has already ended.
    const bool finished = finish();
    curl_multi_poll(multi_.get(), nullptr, 0,
                    finished ? 0 : static_cast<int>(milliseconds(longest)), nullptr);
    curl_multi_perform(multi_.get(), &running);
    finish();
  }

  void wake() override { curl_multi_wakeup(multi_.get()); }

 private:
  std::unique_ptr<Exchange> make(const std::string& path, std::function<void(HttpResult)> done) {
    auto exchange = std::make_unique<Exchange>();
    exchange->done = std::move(done);
    exchange->easy.reset(curl_easy_init());
    CURL* easy = exchange->easy.get();
    const std::string url = options_.server + path;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    if (!options_.unix_socket.empty()) {
      curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, options_.unix_socket.c_str());
    }
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &ClearTextGuard::open_socket);
    if (guarded_) exchange->guard.watch(easy);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, look_elsewhere_ ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options_.timeout));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange.get());
    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange.get());
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, &exchange->error[0]);
    if (const std::string file = authorities_file(options_.ca_file); !file.empty()) {
      curl_easy_setopt(easy, CURLOPT_CAINFO, file.c_str());
    }
    shown_ = token_.current();
    if (!shown_.empty()) add_header(*exchange, "Authorization: Bearer " + shown_);
    return exchange;
  }

  static void add_header(Exchange& exchange, const std::string& line) {
    exchange.headers.reset(curl_slist_append(exchange.headers.release(), line.c_str()));
  }

  void start(std::unique_ptr<Exchange> exchange) {
    curl_easy_setopt(exchange->easy.get(), CURLOPT_HTTPHEADER, exchange->headers.get());
    curl_multi_add_handle(multi_.get(), exchange->easy.get());
    exchanges_.push_back(std::move(exchange));
  }

  /// Completes the requests that have ended. Returns true if there were any.
  bool finish() {
    bool finished = false;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Exchange* raw = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &raw);
      const auto found = std::ranges::find(exchanges_, raw, &std::unique_ptr<Exchange>::get);
      if (found == exchanges_.end()) continue;
      const std::unique_ptr<Exchange> exchange = std::move(*found);
      exchanges_.erase(found);
      curl_multi_remove_handle(multi_.get(), exchange->easy.get());
      // If several servers share one name, another one might answer.
      look_elsewhere_ = code != CURLE_OK || exchange->status() == 421 || exchange->status() >= 500;
      exchange->done(result_of(*exchange, code));
      finished = true;
    }
    return finished;
  }

  HttpResult result_of(Exchange& exchange, CURLcode code) const {
    HttpResult result;
    result.cause = cause_of(code);
    if (code == CURLE_OK) {
      result.status = exchange.status();
      result.body = std::move(exchange.received);
      return result;
    }
    if (exchange.guard.refused()) {
      result.failure = clear_text_refusal(options_.server) +
                       "; where the network is trusted, set HARPE_INSECURE=1";
      return result;
    }
    result.failure = exchange.error[0] != 0 ? &exchange.error[0] : curl_easy_strerror(code);
    if (result.cause != HttpFailure::kNoConnection) return result;
    long number = 0;
    curl_easy_getinfo(exchange.easy.get(), CURLINFO_OS_ERRNO, &number);
    const std::string reason = std::generic_category().message(static_cast<int>(number));
    if (options_.unix_socket.empty()) {
      if (number == ECONNREFUSED) result.failure = reason;
    } else if (number != 0) {
      result.failure = reason;  // libcurl's own message names a host and port, which are not used
    } else {
      // A Unix socket does not wait for a place in the server's queue of connections.
      result.cause = HttpFailure::kNoResponse;
      result.failure = "too many connections wait for it";
    }
    return result;
  }

  HttpLinkOptions options_;
  const bool guarded_;  ///< constant, so that a guard has checked every connection
  TokenFile token_;
  std::string shown_;            ///< in the last request
  bool look_elsewhere_ = false;  ///< the connection leads to a server that cannot answer
  std::unique_ptr<CURLM, CleanMulti> multi_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace

Result<std::unique_ptr<HttpLink>> HttpLink::open(HttpLinkOptions options) {
  while (options.server.ends_with('/')) options.server.pop_back();
  if (!options.server.starts_with("http://") && !options.server.starts_with("https://")) {
    return Error::invalid("the server must be a URL such as http://127.0.0.1:7787, not '" +
                          options.server + "'");
  }
  if (options.server.find('/', options.server.find("//") + 2) != std::string::npos) {
    return Error::invalid(
        "the URL of the server must end after its host and port, such as "
        "http://127.0.0.1:7787, not '" +
        options.server + "'");
  }
  [[maybe_unused]] static const CURLcode kOnce = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = curl_multi_init();
  if (multi == nullptr) return Error::internal("libcurl cannot be used");
  return std::unique_ptr<HttpLink>(std::make_unique<CurlLink>(std::move(options), multi));
}

}  // namespace harpe::net
