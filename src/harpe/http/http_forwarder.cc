#include "harpe/http/http_forwarder.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace harpe {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kMostIdle = 64;  // of one server
constexpr std::uint64_t kMostBody = 256ULL * 1024 * 1024;
/// A listener that reads nothing is not kept in memory without end.
constexpr std::size_t kMostUnread = 4 * 1024 * 1024;

struct Target {
  std::string host, port;
  bool secure = false;
};

std::optional<Target> target_of(const std::string& url) {
  constexpr std::string_view kPlain = "http://", kSecure = "https://";
  const bool secure = url.starts_with(kSecure);
  if (!secure && !url.starts_with(kPlain)) return std::nullopt;
  std::string rest = url.substr(secure ? kSecure.size() : kPlain.size());
  rest = rest.substr(0, rest.find('/'));
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Target{std::move(host), rest.substr(colon + 1), secure};
}

bool asks_for_events(const HttpRequest& request) {
  return request.method == "GET" && request.path.ends_with("/events");
}

/// A machine that is lost while nothing is sent is missed after about 25 s.
void keep_alive(tcp::socket& socket) {
  const auto set = [&](int level, int name, int value) {
    static_cast<void>(::setsockopt(socket.native_handle(), level, name, &value, sizeof value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // s
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);  // s
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string text_of(const HttpRequest& request, const Target& target) {
  // 1.0 for events: they come as they are, not in chunks.
  const bool events = asks_for_events(request);
  std::string text = request.method + " " + request.path;
  if (!request.query.empty()) text += "?" + request.query;
  text += events ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  text += "Host: " + target.host + "\r\nHarpe-Forwarded: 1\r\n";
  if (!request.authorization.empty()) text += "Authorization: " + request.authorization + "\r\n";
  text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n\r\n";
  return text + request.body;
}

/// A connection with or without TLS, as Asio's and Beast's operations on streams want it.
class PeerStream {
 public:
  using executor_type = tcp::socket::executor_type;
  using lowest_layer_type = tcp::socket;

  explicit PeerStream(asio::io_context& context) : plain_(std::in_place, context) {}
  PeerStream(asio::io_context& context, asio::ssl::context& tls, const std::string& host)
      : secure_(std::make_unique<asio::ssl::stream<tcp::socket>>(context, tls)) {
    error_code no_address;
    static_cast<void>(asio::ip::make_address(host, no_address));
    // Names alone are announced, for servers that share an address.
    if (no_address) SSL_set_tlsext_host_name(secure_->native_handle(), host.c_str());
    secure_->set_verify_callback(asio::ssl::host_name_verification(host));
  }

  executor_type get_executor() { return socket().get_executor(); }
  tcp::socket& socket() { return secure_ ? secure_->next_layer() : *plain_; }

  /// Calls `done` when what is needed before the first request is.
  template <class Done>
  void prepare(Done&& done) {
    if (!secure_) return done(error_code());
    secure_->async_handshake(asio::ssl::stream_base::client, std::forward<Done>(done));
  }
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (secure_) return secure_->async_read_some(buffers, std::forward<Handler>(handler));
    plain_->async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (secure_) return secure_->async_write_some(buffers, std::forward<Handler>(handler));
    plain_->async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  std::optional<tcp::socket> plain_;
  std::unique_ptr<asio::ssl::stream<tcp::socket>> secure_;
};

/// Events of another server, as they come.
class ForwardedEvents final : public EventStream,
                              public std::enable_shared_from_this<ForwardedEvents> {
 public:
  ForwardedEvents(std::unique_ptr<PeerStream> stream, std::string begun)
      : stream_(std::move(stream)), unread_(std::move(begun)) {}

  void start(std::function<void()> wake) override {
    wake_ = std::move(wake);
    read();
    wake_();
  }
  std::string take() override {
    const bool was_full = unread_.size() > kMostUnread;
    std::string text = std::exchange(unread_, {});
    if (was_full && !ended_) read();
    return text;
  }
  bool ended() const override { return ended_; }

 private:
  void read() {
    // The connection that listens owns this: when it goes, so does the socket.
    stream_->async_read_some(asio::buffer(buffer_),
                             [weak = weak_from_this()](error_code error, std::size_t size) {
                               const auto self = weak.lock();
                               if (self == nullptr) return;
                               self->ended_ = static_cast<bool>(error);
                               self->unread_.append(self->buffer_.data(), error ? 0 : size);
                               self->wake_();
                               if (!error && self->unread_.size() <= kMostUnread) self->read();
                             });
  }

  std::unique_ptr<PeerStream> stream_;
  std::string unread_;
  std::function<void()> wake_;
  std::array<char, 4096> buffer_{};
  bool ended_ = false;
};

}  // namespace

struct HttpForwarder::State {
  State(asio::io_context& given, Options chosen) : context(given), options(std::move(chosen)) {}

  /// Once, when a server that speaks TLS is first asked: reading the system's certificates takes
  /// time and memory that plain HTTP does without.
  error_code load_certificates() {
    error_code error;
    if (tls) return error;
    tls.emplace(asio::ssl::context::tls_client);
    static_cast<void>(tls->set_default_verify_paths(error));
    static_cast<void>(tls->set_verify_mode(asio::ssl::verify_peer, error));
    if (!error && !options.trusted.empty()) {
      static_cast<void>(tls->load_verify_file(options.trusted.string(), error));
    }
    if (error) tls.reset();
    return error;
  }

  asio::io_context& context;
  const Options options;
  std::optional<asio::ssl::context> tls;
  std::map<std::string, std::vector<std::unique_ptr<PeerStream>>> idle;  ///< by URL
};

namespace {

/// One request on its way there and back.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpForwarder::State> state, std::string url, Target target,
           const HttpRequest& request, HttpForwarder::Answered answered)
      : state_(std::move(state)),
        url_(std::move(url)),
        target_(std::move(target)),
        text_(text_of(request, target_)),
        for_events_(asks_for_events(request)),
        without_body_(request.method == "HEAD"),
        may_wait_(state_->options.may_wait && state_->options.may_wait(request)),
        answered_(std::move(answered)),
        resolver_(state_->context),
        deadline_(state_->context) {}

  void start() {
    arm();
    std::vector<std::unique_ptr<PeerStream>>& idle = state_->idle[url_];
    if (!idle.empty()) {
      stream_ = std::move(idle.back());
      idle.pop_back();
      kept_ = true;
      return write();
    }
    resolve();
  }

 private:
  void arm() {
    deadline_.expires_after(
        std::chrono::nanoseconds(static_cast<std::int64_t>(state_->options.timeout.value * 1e9)));
    deadline_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->fail("it did not answer in time");
    });
  }

  void disarm() {
    error_code ignored;
    deadline_.cancel(ignored);
  }

  void resolve() {
    kept_ = false;
    if (target_.secure) {
      if (error_code error = state_->load_certificates()) return fail(error.message());
    }
    stream_ = target_.secure
                  ? std::make_unique<PeerStream>(state_->context, *state_->tls, target_.host)
                  : std::make_unique<PeerStream>(state_->context);
    resolver_.async_resolve(
        target_.host, target_.port,
        [self = shared_from_this()](error_code error, const tcp::resolver::results_type& found) {
          if (error) return self->fail(error.message());
          if (self->done_) return;
          asio::async_connect(
              self->stream_->socket(), found, [self](error_code failed, const tcp::endpoint&) {
                if (failed) return self->fail(failed.message());
                error_code ignored;
                static_cast<void>(self->stream_->socket().set_option(tcp::no_delay(true), ignored));
                keep_alive(self->stream_->socket());
                self->shake_hands();
              });
        });
  }

  void shake_hands() {
    stream_->prepare([self = shared_from_this()](error_code failed) {
      if (failed) return self->fail(failed.message());
      self->write();
    });
  }

  void write() {
    if (done_) return;
    buffer_.clear();
    parser_.emplace();
    parser_->body_limit(kMostBody);
    parser_->skip(without_body_);
    asio::async_write(*stream_, asio::buffer(text_),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->again_or_fail(error);
                        if (self->may_wait_) self->disarm();
                        self->read();
                      });
  }

  void read() {
    beast::http::async_read_header(
        *stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->again_or_fail(error);
          if (self->for_events_ && self->parser_->get().result_int() == 200) {
            return self->begin_events();
          }
          beast::http::async_read(*self->stream_, self->buffer_, *self->parser_,
                                  [self](error_code failed, std::size_t) {
                                    if (failed) return self->fail(failed.message());
                                    self->finish();
                                  });
        });
  }

  /// The other server closes what is idle for long; that may meet the next request.
  void again_or_fail(error_code error) {
    if (!kept_ || done_) return fail(error.message());
    if (may_wait_) arm();
    resolve();
  }

  HttpResponse begun_response() const {
    const auto& answer = parser_->get();
    HttpResponse response;
    response.status = static_cast<int>(answer.result_int());
    response.content_type = std::string(answer[beast::http::field::content_type]);
    for (const auto field :
         {beast::http::field::retry_after, beast::http::field::allow,
          beast::http::field::www_authenticate, beast::http::field::cache_control}) {
      if (answer.find(field) == answer.end()) continue;
      response.headers.emplace_back(std::string(beast::http::to_string(field)),
                                    std::string(answer[field]));
    }
    return response;
  }

  void begin_events() {
    HttpResponse response = begun_response();
    std::string begun(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    response.stream = std::make_shared<ForwardedEvents>(std::move(stream_), std::move(begun));
    answer(std::move(response));
  }

  void finish() {
    HttpResponse response = begun_response();
    const bool keep = parser_->keep_alive();
    response.body = std::move(parser_->get().body());
    std::vector<std::unique_ptr<PeerStream>>& idle = state_->idle[url_];
    if (keep && idle.size() < kMostIdle) idle.push_back(std::move(stream_));
    answer(std::move(response));
  }

  void fail(const std::string& why) {
    error_code ignored;
    if (stream_ != nullptr) static_cast<void>(stream_->socket().close(ignored));
    answer(Error::of(ErrorCode::kUnavailable, "the server at " + url_ + ": " + why));
  }

  void answer(Result<HttpResponse> response) {
    if (std::exchange(done_, true)) return;
    disarm();
    answered_(std::move(response));
  }

  std::shared_ptr<HttpForwarder::State> state_;
  const std::string url_;
  const Target target_;
  const std::string text_;  ///< of the request
  const bool for_events_, without_body_, may_wait_;
  const HttpForwarder::Answered answered_;
  tcp::resolver resolver_;
  std::unique_ptr<PeerStream> stream_;
  asio::steady_timer deadline_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::response_parser<beast::http::string_body>> parser_;
  bool kept_ = false;  ///< the connection was used before
  bool done_ = false;
};

}  // namespace

Result<HttpForwarder> HttpForwarder::create(ServerLoop& loop, const Options& options) {
  auto state = std::make_shared<State>(loop.context(), options);
  // A file that was named is read at once: whoever named it learns here what is wrong with it.
  if (!options.trusted.empty()) {
    if (const error_code error = state->load_certificates()) {
      return Error::io(options.trusted, "is no PEM of certificates: " + error.message());
    }
  }
  return HttpForwarder(std::move(state));
}

HttpForwarder::HttpForwarder(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpForwarder::HttpForwarder(HttpForwarder&&) noexcept = default;
HttpForwarder& HttpForwarder::operator=(HttpForwarder&&) noexcept = default;

HttpForwarder::~HttpForwarder() {
  if (state_ != nullptr) state_->idle.clear();
}

void HttpForwarder::forward(const std::string& url, const HttpRequest& request, Answered answered) {
  std::optional<Target> target = target_of(url);
  if (!target) {
    return answered(Error::of(ErrorCode::kUnavailable,
                              "another server says that it is at '" + url +
                                  "', which is neither http://HOST:PORT nor https://HOST:PORT"));
  }
  std::make_shared<Exchange>(state_, url, *std::move(target), request, std::move(answered))
      ->start();
}

}  // namespace harpe
