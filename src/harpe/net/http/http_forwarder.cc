#include "harpe/net/http/http_forwarder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "harpe/net/http/admission.h"
#include "harpe/net/http/byte_stream.h"
#include "harpe/net/http/http_message.h"
#include "harpe/net/http/http_response_reader.h"

namespace harpe::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kPiece = 16 * 1024;

/// Events of another server, forwarded as they arrive. Reads from that server only when the
/// listener takes more. The listener's connection owns this object and thereby the stream.
/// Everything runs on the thread of the stream's loop.
class ForwardedEvents final : public EventStream,
                              public std::enable_shared_from_this<ForwardedEvents> {
 public:
  /// \param begun  bytes of the body that were already read
  ForwardedEvents(std::shared_ptr<ByteStream> stream, std::string begun)
      : stream_(std::move(stream)), unread_(std::move(begun)) {}

  void start(std::function<void()> wake) override {
    wake_ = std::move(wake);
    wake_();
  }

  std::string take() override {
    if (!unread_.empty()) return std::exchange(unread_, {});
    if (ended_ || waits_) return {};
    std::array<char, kPiece> buffer{};
    const ByteStream::Moved moved = stream_->read(buffer.data(), buffer.size());
    ended_ = moved.state == ByteStream::State::kEnd || moved.state == ByteStream::State::kFailed;
    const bool waits = !ended_ && moved.state != ByteStream::State::kDone;
    if (waits) wait(moved.state);
    return {buffer.data(), moved.bytes};
  }

  bool ended() const override { return ended_; }

 private:
  void wait(ByteStream::State state) {
    waits_ = true;
    stream_->when(state, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->waits_ = false;
      self->wake_();
    });
  }

  std::shared_ptr<ByteStream> stream_;
  std::string unread_;
  std::function<void()> wake_;
  bool waits_ = false, ended_ = false;
};

constexpr std::size_t kMostIdle = 64;  // of one server
constexpr std::size_t kPeerScratch = 64 * 1024;
/// Bytes read before other connections are served.
constexpr std::size_t kInARow = 1024 * 1024;
/// With the keepalive probes of `watch_over`, a lost machine is detected after 25 s of silence.
constexpr Seconds kUpstreamSilence{10};

struct Target {
  std::string host, port;
  std::string authority;  ///< host and port, as given
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
  return Target{std::move(host), rest.substr(colon + 1), rest, secure};
}

bool asks_for_events(const HttpRequest& request) {
  return request.method == "GET" && request.path.ends_with("/events");
}

std::string text_of(const HttpRequest& request, const Target& target, const std::string& token) {
  // HTTP/1.0 for events: the server then sends them without chunked encoding.
  const bool events = asks_for_events(request);
  std::string text = request.method + " " + request.path;
  if (!request.query.empty()) text += "?" + request.query;
  text += events ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  text += "Host: " + target.authority + "\r\nHarpe-Forwarded: " + token + "\r\n";
  if (!request.authorization.empty()) text += "Authorization: " + request.authorization + "\r\n";
  text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n\r\n";
  return text + request.body;
}

}  // namespace

struct HttpForwarder::State : std::enable_shared_from_this<State> {
  State(asio::io_context& given, Options chosen)
      : context(given),
        options(std::move(chosen)),
        budget(std::make_shared<ByteBudget>(
            ByteBudget::Limits{.total = options.buffered, .per_client = options.buffered})),
        scratch(kPeerScratch) {}

  /// Loads the trusted certificates on the first call. Called only if TLS is used or `trusted` is
  /// set: reading the system's certificates takes time and memory.
  error_code load_certificates() {
    error_code error;
    if (tls) return error;
    tls.emplace(asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
    static_cast<void>(tls->set_default_verify_paths(error));
    static_cast<void>(tls->set_verify_mode(asio::ssl::verify_peer, error));
    if (!error && !options.trusted.empty()) {
      static_cast<void>(tls->load_verify_file(options.trusted.string(), error));
    }
    if (error) tls.reset();
    return error;
  }

  /// Returns an idle connection to `url`; null if there is none.
  std::shared_ptr<ByteStream> take_idle(const std::string& url) {
    const auto found = idle.find(url);
    if (found == idle.end()) return nullptr;
    std::shared_ptr<ByteStream> stream = std::move(found->second.back().stream);
    found->second.pop_back();
    if (found->second.empty()) idle.erase(found);
    return stream;
  }

  /// Keeps a connection for the next request, until the other server ends it.
  void keep(const std::string& url, std::shared_ptr<ByteStream> stream) {
    std::vector<Idle>& kept = idle[url];
    if (kept.size() >= kMostIdle) return;
    const std::uint64_t number = ++newest;
    stream->when(ByteStream::State::kWaitRead, [weak = weak_from_this(), url, number] {
      if (const auto self = weak.lock()) self->drop(url, number);
    });
    kept.push_back({std::move(stream), number});
  }

  void drop(const std::string& url, std::uint64_t number) {
    const auto found = idle.find(url);
    if (found == idle.end()) return;
    std::erase_if(found->second, [number](const Idle& one) { return one.number == number; });
    if (found->second.empty()) idle.erase(found);
  }

  struct Idle {
    std::shared_ptr<ByteStream> stream;
    std::uint64_t number = 0;  ///< new each time the connection becomes idle
  };

  asio::io_context& context;
  const Options options;
  const std::shared_ptr<ByteBudget> budget;
  std::optional<asio::ssl::context> tls;
  std::map<std::string, std::vector<Idle>> idle;  ///< by URL; none is empty
  std::uint64_t newest = 0;
  std::vector<char> scratch;  ///< buffer that exchanges read into, one at a time
};

namespace {

/// One forwarded request and its response. Only pending operations share ownership of it, so it
/// ends with the last of them.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpForwarder::State> state, std::string url, Target target,
           const HttpRequest& request, HttpForwarder::Answered answered)
      : state_(std::move(state)),
        url_(std::move(url)),
        target_(std::move(target)),
        text_(text_of(request, target_,
                      state_->options.token_of ? state_->options.token_of(request) : "1")),
        for_events_(asks_for_events(request)),
        to_head_(request.method == "HEAD"),
        guarded_(!target_.secure && !state_->options.trusted_network &&
                 (state_->options.token_of || !request.authorization.empty())),
        may_wait_(state_->options.may_wait && state_->options.may_wait(request)),
        answered_(std::move(answered)),
        share_(state_->budget, {}),
        resolver_(state_->context),
        socket_(state_->context),
        deadline_(state_->context) {}

  void start(const std::shared_ptr<ClientPresence>& presence) {
    if (presence != nullptr) {
      if (presence->has_left()) return;
      presence->when_left([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->cancel();
      });
    }
    arm();
    stream_ = state_->take_idle(url_);
    kept_ = stream_ != nullptr;
    kept_ ? write() : resolve();
  }

 private:
  enum class Stage : unsigned char { kHandshake, kWriting, kReading };

  void arm() {
    deadline_.expires_after(
        std::chrono::nanoseconds(static_cast<std::int64_t>(state_->options.timeout.value * 1e9)));
    deadline_.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
      self->fail("it did not respond in time");
    });
  }

  void disarm() { deadline_.expires_at(std::chrono::steady_clock::time_point::max()); }

  void resolve() {
    kept_ = false;
    if (target_.secure) {
      if (error_code error = state_->load_certificates()) return fail(error.message());
    }
    resolver_.async_resolve(
        target_.host, target_.port,
        [self = shared_from_this()](error_code error, const tcp::resolver::results_type& found) {
          if (self->done_) return;
          if (error) return self->fail(error.message());
          self->connect(found);
        });
  }

  void connect(const tcp::resolver::results_type& found) {
    // Checks addresses, not names: a name can resolve to any address.
    const auto is_beyond = [](const auto& one) { return !one.endpoint().address().is_loopback(); };
    if (guarded_ && std::any_of(found.begin(), found.end(), is_beyond)) {
      return fail(
          "a token is forwarded over https:// or to a loopback address only: give that "
          "server --tls-certificate and --tls-key, or --peer-url https://...");
    }
    asio::async_connect(socket_, found,
                        [self = shared_from_this()](error_code error, const tcp::endpoint&) {
                          if (self->done_) return;
                          if (error) return self->fail(error.message());
                          self->connected();
                        });
  }

  void connected() {
    watch_over(socket_.native_handle(), kUpstreamSilence);
    error_code ignored;
    static_cast<void>(socket_.non_blocking(true, ignored));
    ByteStream::Socket socket(std::move(socket_));
    stream_ = target_.secure ? std::make_shared<ByteStream>(
                                   std::move(socket), state_->tls->native_handle(), target_.host)
                             : std::make_shared<ByteStream>(std::move(socket));
    stage_ = Stage::kHandshake;
    proceed();
  }

  void wait(ByteStream::State state) {
    stream_->when(state, [self = shared_from_this()] { self->proceed(); });
  }

  void proceed() {
    if (done_) return;
    if (stage_ == Stage::kHandshake) {
      const ByteStream::State state = stream_->handshake();
      if (state == ByteStream::State::kDone) return write();
      return is_wait(state) ? wait(state) : fail(stream_->failure());
    }
    stage_ == Stage::kWriting ? flush() : read();
  }

  static bool is_wait(ByteStream::State state) {
    return state == ByteStream::State::kWaitRead || state == ByteStream::State::kWaitWrite;
  }

  void write() {
    stage_ = Stage::kWriting;
    written_ = 0;
    has_begun_ = false;
    reader_.emplace(HttpResponseReader::Limits{.body = state_->options.largest_response}, to_head_);
    flush();
  }

  void flush() {
    while (written_ < text_.size()) {
      const ByteStream::Moved moved = stream_->write(std::string_view(text_).substr(written_));
      if (is_wait(moved.state)) return wait(moved.state);
      if (moved.state != ByteStream::State::kDone) return again_or_fail(stream_->failure());
      written_ += moved.bytes;
    }
    if (may_wait_) disarm();
    stage_ = Stage::kReading;
    wait(ByteStream::State::kWaitRead);
  }

  void read() {
    for (std::size_t in_a_row = 0; in_a_row < kInARow;) {
      std::vector<char>& scratch = state_->scratch;
      const ByteStream::Moved moved = stream_->read(scratch.data(), scratch.size());
      if (is_wait(moved.state)) return wait(moved.state);
      if (moved.state == ByteStream::State::kEnd) {
        if (reader_->end() == HttpResponseReader::State::kDone) return finish(false);
        return again_or_fail(reader_->why());
      }
      if (moved.state == ByteStream::State::kFailed) return again_or_fail(stream_->failure());
      in_a_row += moved.bytes;
      if (!take({scratch.data(), moved.bytes})) return;
    }
    asio::post(state_->context, [self = shared_from_this()] { self->proceed(); });
  }

  /// Returns true if more of the response must be read.
  bool take(std::string_view bytes) {
    has_begun_ = true;
    arm();  // restarts the timeout: the response is still arriving
    for (;;) {
      switch (reader_->read(bytes)) {
        case HttpResponseReader::State::kHead:
          if (!for_events_ || reader_->status() != 200) continue;
          begin_events(bytes);
          return false;
        case HttpResponseReader::State::kNeedMore:
          if (share_.hold(reader_->held())) return true;
          fail("too many large responses are in progress");
          return false;
        case HttpResponseReader::State::kDone:
          finish(bytes.empty() && reader_->keep_alive());
          return false;
        case HttpResponseReader::State::kBad:
          fail(reader_->why());
          return false;
      }
    }
  }

  /// Sends the request again if a reused connection ended before any response: the other server
  /// closes idle connections. Otherwise fails.
  void again_or_fail(const std::string& why) {
    if (!kept_ || has_begun_) return fail(why);
    arm();
    resolve();
  }

  void begin_events(std::string_view begun) {
    HttpResponse response = reader_->take();
    response.stream = std::make_shared<ForwardedEvents>(std::move(stream_), std::string(begun));
    respond(std::move(response));
  }

  void finish(bool keep) {
    if (keep) state_->keep(url_, std::move(stream_));
    respond(reader_->take());
  }

  void fail(const std::string& why) {
    respond(Error::of(ErrorCode::kUnavailable, "the server at " + url_ + ": " + why));
  }

  void respond(Result<HttpResponse> response) {
    if (done_) return;
    const HttpForwarder::Answered answered = std::move(answered_);
    cancel();
    answered(std::move(response));
  }

  /// Cancels all pending operations without calling `answered`.
  void cancel() {
    done_ = true;
    answered_ = nullptr;
    reader_.reset();
    share_.hold(0);
    error_code ignored;
    deadline_.cancel(ignored);
    resolver_.cancel();
    static_cast<void>(socket_.close(ignored));
    stream_.reset();
  }

  std::shared_ptr<HttpForwarder::State> state_;
  const std::string url_;
  const Target target_;
  const std::string text_;
  const bool for_events_;
  const bool to_head_;
  const bool guarded_;  ///< carries a token unencrypted
  const bool may_wait_;
  HttpForwarder::Answered answered_;
  ByteBudget::Share share_;
  tcp::resolver resolver_;
  tcp::socket socket_;  ///< until it is connected
  asio::steady_timer deadline_;
  std::shared_ptr<ByteStream> stream_;
  std::optional<HttpResponseReader> reader_;
  std::size_t written_ = 0;  ///< bytes of the request
  Stage stage_ = Stage::kHandshake;
  bool kept_ = false;       ///< the connection was used before
  bool has_begun_ = false;  ///< bytes of the response have arrived
  bool done_ = false;
};

}  // namespace

Result<HttpForwarder> HttpForwarder::create(ServerLoop& loop, const Options& options) {
  auto state = std::make_shared<State>(loop.context(), options);
  // A given file is read at once, so that the operator sees its errors at start.
  if (!options.trusted.empty()) {
    if (const error_code error = state->load_certificates()) {
      return Error::io(options.trusted, "is not a PEM file of certificates: " + error.message());
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
                              "another server gives its URL as '" + url +
                                  "', which is neither http://HOST:PORT nor https://HOST:PORT"));
  }
  std::make_shared<Exchange>(state_, url, *std::move(target), request, std::move(answered))
      ->start(request.presence);
}

}  // namespace harpe::net
