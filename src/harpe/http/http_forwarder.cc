#include "harpe/http/http_forwarder.h"

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
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

#include "harpe/http/http_answers.h"

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
};

std::optional<Target> target_of(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  std::string rest = url.substr(kScheme.size());
  rest = rest.substr(0, rest.find('/'));
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Target{std::move(host), rest.substr(colon + 1)};
}

bool asks_for_events(const HttpRequest& request) {
  return request.method == "GET" && request.path.ends_with("/events");
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

/// Events of another server, as they come.
class ForwardedEvents final : public EventStream,
                              public std::enable_shared_from_this<ForwardedEvents> {
 public:
  ForwardedEvents(tcp::socket socket, std::string begun)
      : socket_(std::move(socket)), unread_(std::move(begun)) {}

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
    socket_.async_read_some(asio::buffer(buffer_),
                            [weak = weak_from_this()](error_code error, std::size_t size) {
                              const auto self = weak.lock();
                              if (self == nullptr) return;
                              self->ended_ = static_cast<bool>(error);
                              self->unread_.append(self->buffer_.data(), error ? 0 : size);
                              self->wake_();
                              if (!error && self->unread_.size() <= kMostUnread) self->read();
                            });
  }

  tcp::socket socket_;
  std::string unread_;
  std::function<void()> wake_;
  std::array<char, 4096> buffer_{};
  bool ended_ = false;
};

}  // namespace

struct HttpForwarder::State {
  State(asio::io_context& given, Seconds time) : context(given), timeout(time) {}
  asio::io_context& context;
  Seconds timeout;
  std::map<std::string, std::vector<tcp::socket>> idle;  ///< by URL
};

namespace {

/// One request on its way there and back.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpForwarder::State> state, std::string url, Target target,
           HttpRequest request, Reply reply)
      : state_(std::move(state)),
        url_(std::move(url)),
        target_(std::move(target)),
        request_(std::move(request)),
        reply_(std::move(reply)),
        resolver_(state_->context),
        socket_(state_->context),
        deadline_(state_->context) {}

  void start() {
    deadline_.expires_after(
        std::chrono::nanoseconds(static_cast<std::int64_t>(state_->timeout.value * 1e9)));
    deadline_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->fail("it did not answer in time");
    });
    std::vector<tcp::socket>& idle = state_->idle[url_];
    if (!idle.empty()) {
      socket_ = std::move(idle.back());
      idle.pop_back();
      kept_ = true;
      return write();
    }
    resolve();
  }

 private:
  void resolve() {
    kept_ = false;
    resolver_.async_resolve(
        target_.host, target_.port,
        [self = shared_from_this()](error_code error, tcp::resolver::results_type found) {
          if (error) return self->fail(error.message());
          asio::async_connect(
              self->socket_, found, [self](error_code failed, const tcp::endpoint&) {
                if (failed) return self->fail(failed.message());
                error_code ignored;
                static_cast<void>(self->socket_.set_option(tcp::no_delay(true), ignored));
                self->write();
              });
        });
  }

  void write() {
    if (done_) return;
    text_ = text_of(request_, target_);
    buffer_.clear();
    parser_.emplace();
    parser_->body_limit(kMostBody);
    asio::async_write(socket_, asio::buffer(text_),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->again_or_fail(error);
                        self->read();
                      });
  }

  void read() {
    beast::http::async_read_header(
        socket_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->again_or_fail(error);
          if (asks_for_events(self->request_) && self->parser_->get().result_int() == 200) {
            return self->begin_events();
          }
          beast::http::async_read(self->socket_, self->buffer_, *self->parser_,
                                  [self](error_code failed, std::size_t) {
                                    if (failed) return self->fail(failed.message());
                                    self->finish();
                                  });
        });
  }

  /// The other server closes what is idle for long; that may meet the next request.
  void again_or_fail(error_code error) {
    if (!kept_ || done_) return fail(error.message());
    error_code ignored;
    static_cast<void>(socket_.close(ignored));
    socket_ = tcp::socket(state_->context);
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
    response.stream = std::make_shared<ForwardedEvents>(std::move(socket_), std::move(begun));
    answer(std::move(response));
  }

  void finish() {
    HttpResponse response = begun_response();
    const bool keep = parser_->keep_alive();
    response.body = std::move(parser_->get().body());
    std::vector<tcp::socket>& idle = state_->idle[url_];
    if (keep && idle.size() < kMostIdle) idle.push_back(std::move(socket_));
    answer(std::move(response));
  }

  void fail(const std::string& why) {
    if (done_) return;
    HttpResponse response =
        error_at(request_.path, 503, "unavailable",
                 "the server that has this job, " + url_ + ", cannot be reached (" + why +
                     "); ask again: another one takes the job when that one is gone");
    response.headers.emplace_back("Retry-After", "1");
    error_code ignored;
    static_cast<void>(socket_.close(ignored));
    answer(std::move(response));
  }

  void answer(HttpResponse response) {
    if (std::exchange(done_, true)) return;
    error_code ignored;
    deadline_.cancel(ignored);
    reply_(std::move(response));
  }

  std::shared_ptr<HttpForwarder::State> state_;
  const std::string url_;
  const Target target_;
  const HttpRequest request_;
  const Reply reply_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  std::string text_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::response_parser<beast::http::string_body>> parser_;
  bool kept_ = false;  ///< the connection was used before
  bool done_ = false;
};

}  // namespace

HttpForwarder::HttpForwarder(ServerLoop& loop, Seconds timeout)
    : state_(std::make_shared<State>(loop.context(), timeout)) {}

HttpForwarder::~HttpForwarder() {
  state_->idle.clear();
}

void HttpForwarder::forward(const std::string& url, HttpRequest request, Reply reply) {
  std::optional<Target> target = target_of(url);
  if (!target) {
    return reply(error_at(request.path, 503, "unavailable",
                          "the server that has this job says that it is at '" + url +
                              "', which is no http://HOST:PORT"));
  }
  std::make_shared<Exchange>(state_, url, *std::move(target), std::move(request), std::move(reply))
      ->start();
}

}  // namespace harpe
