#include "harpe/http/http_connection.h"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <optional>

#include "harpe/http/http_answers.h"
#include "harpe/http/http_reader.h"

namespace harpe {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using TlsStream = asio::ssl::stream<Socket>;

namespace {

/// How long a client may take to read the last answer before the connection goes.
constexpr Seconds kLinger{1};
/// Bytes read at once: thousands of connections wait, few send much.
constexpr std::size_t kSmallBuffer = 1024, kLargeBuffer = 256 * 1024;

std::chrono::nanoseconds duration(Seconds seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds.value * 1e9));
}

std::string chunk(const std::string& text) {
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return size.data() + text + "\r\n";
}

template <class Stream>
class Connection final : public ConnectionBase,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(ConnectionHost& host, Stream stream, Peer peer, std::string key, bool needs_token)
      : host_(&host),
        context_(host.context),
        limits_(host.limits),
        stream_(std::move(stream)),
        deadline_(host.context),
        reader_(limits_.sizes),
        peer_(std::move(peer)),
        key_(std::move(key)),
        needs_token_(needs_token) {}

  void start() override {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      arm(limits_.request);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                error ? self->close() : self->read();
                              });
    } else {
      read();
    }
  }

  void close() override {
    if (host_ == nullptr) return;
    ConnectionHost* host = std::exchange(host_, nullptr);
    error_code ignored;
    deadline_.cancel(ignored);
    socket().shutdown(Socket::shutdown_both, ignored);
    socket().close(ignored);
    events_.reset();
    host->closed(*this, key_);
  }

 private:
  /// Closes the connection, or does `late`, unless armed anew or disarmed within `time`.
  void arm(Seconds time, void (Connection::*late)() = &Connection::close) {
    if (host_ == nullptr) return;
    deadline_.expires_after(duration(time));
    deadline_.async_wait([self = this->shared_from_this(), late](error_code error) {
      // A wait that had ended before it was cancelled comes without an error.
      if (error || self->host_ == nullptr) return;
      if (self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
      ((*self).*late)();
    });
  }

  void read() {
    if (host_ == nullptr) return;
    // The time for a request runs from its first byte: one byte now and then gains nothing.
    if (!reader_.begun()) {
      arm(limits_.idle);
    } else if (!reading_) {
      arm(limits_.request);
    }
    reading_ = reader_.begun();
    stream_.async_read_some(asio::buffer(buffer_),
                            [self = this->shared_from_this()](error_code error, std::size_t size) {
                              if (error) return self->close();
                              self->advance({self->buffer_.data(), size});
                            });
  }

  void advance(std::string_view bytes) {
    if (host_ == nullptr) return;
    const bool is_full = bytes.size() == buffer_.size();
    switch (reader_.put(bytes)) {
      case HttpReader::State::kNeedMore:
        if (auto refused = refuse_unread()) return answer(*refused, version_, false);
        if (is_full && buffer_.size() < kLargeBuffer) buffer_.resize(kLargeBuffer);
        if (!reader_.wants_continue()) return read();
        output_ = "HTTP/1.1 100 Continue\r\n\r\n";
        return write([](Connection& self) { self.read(); });
      case HttpReader::State::kBad:
        return answer(reader_.bad(), 11, false);
      case HttpReader::State::kDone:
        return handle(reader_.take());
    }
  }

  void set_origin(HttpRequest& request) {
    request.peer = peer_;
    request.client = key_;
    request.needs_token = needs_token_;
  }

  std::optional<HttpResponse> refuse_unread() {
    if (!limits_.refuse_unread) return std::nullopt;
    std::optional<HttpRequest> head = reader_.take_head();
    if (!head) return std::nullopt;
    set_origin(*head);
    version_ = head->version;
    return limits_.refuse_unread(*head);
  }

  void handle(HttpRequest request) {
    reading_ = false;
    if (buffer_.size() > kSmallBuffer) buffer_ = std::vector<char>(kSmallBuffer);
    set_origin(request);
    version_ = request.version;
    is_head_ = request.method == "HEAD";
    is_native_ = is_native_path(request.path) || request.path == "/health";
    keep_alive_ = request.keep_alive;
    arm(limits_.answer, &Connection::give_up);
    const std::uint64_t number = ++request_;
    // Replies come from any thread, at any time, or never.
    Reply reply = [weak = this->weak_from_this(), &context = context_,
                   number](HttpResponse response) {
      asio::post(context, [weak, number, response = std::move(response)]() mutable {
        const auto self = weak.lock();
        if (self == nullptr || self->request_ != number || self->host_ == nullptr) return;
        ++self->request_;
        self->answer(std::move(response), self->version_, self->keep_alive_);
      });
    };
    host_->handler(std::move(request), std::move(reply));
  }

  void give_up() {
    ++request_;
    const std::string& why = limits_.late_answer;
    answer(is_native_ ? native_error(504, "unavailable", why) : text_response(504, why + "\n"),
           version_, false);
  }

  void answer(HttpResponse response, int version, bool keep_alive) {
    if (const auto check = std::exchange(response.before_sending, nullptr)) check(response);
    if (response.stream != nullptr) return start_events(response);
    if (is_native_) end_line(response);
    keep_alive_ = keep_alive;
    output_ = http_text(response, version, keep_alive);
    if (is_head_) output_.resize(output_.find("\r\n\r\n") + 4);
    is_head_ = false;
    write([](Connection& self) {
      if (!self.keep_alive_) return self.linger();
      self.advance({});  // the next request may have come with the last
    });
  }

  template <class Next>
  void write(Next next) {
    arm(limits_.write);
    asio::async_write(stream_, asio::buffer(output_),
                      [self = this->shared_from_this(), next](error_code error, std::size_t) {
                        if (error || self->host_ == nullptr) return self->close();
                        next(*self);
                      });
  }

  /// Closing with unread bytes would throw away the answer that is still on its way.
  void linger() {
    error_code ignored;
    socket().shutdown(Socket::shutdown_send, ignored);
    arm(kLinger);
    drain();
  }

  Socket& socket() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void drain() {
    socket().async_read_some(asio::buffer(buffer_),
                             [self = this->shared_from_this()](error_code error, std::size_t) {
                               if (error || self->host_ == nullptr) return self->close();
                               self->drain();
                             });
  }

  void start_events(const HttpResponse& response) {
    events_ = response.stream;
    output_ = http_text(response, version_, false);
    watch_for_end();
    events_->start([weak = this->weak_from_this(), &context = context_] {
      asio::post(context, [weak] {
        if (const auto self = weak.lock()) self->send_events();
      });
    });
    writing_ = true;
    write([](Connection& self) { self.sent_events(); });
  }

  void send_events() {
    if (writing_ || host_ == nullptr || events_ == nullptr) return;
    std::string text = events_->take();
    if (text.empty()) {
      if (events_->ended()) end_events();
      return;
    }
    output_ = version_ == 10 ? std::move(text) : chunk(text);
    writing_ = true;
    write([](Connection& self) { self.sent_events(); });
  }

  void end_events() {
    output_ = version_ == 10 ? "" : "0\r\n\r\n";
    writing_ = true;
    write([](Connection& self) { self.close(); });
  }

  void sent_events() {
    writing_ = false;
    error_code ignored;
    deadline_.cancel(ignored);
    send_events();
  }

  /// Whatever else a client sends while it listens is thrown away; its end is noticed at once.
  void watch_for_end() {
    stream_.async_read_some(asio::buffer(buffer_),
                            [self = this->shared_from_this()](error_code error, std::size_t) {
                              if (error || self->host_ == nullptr) return self->close();
                              self->watch_for_end();
                            });
  }

  ConnectionHost* host_;  ///< null once closed
  asio::io_context& context_;
  const HttpLimits& limits_;
  Stream stream_;
  asio::steady_timer deadline_;
  HttpReader reader_;
  std::vector<char> buffer_ = std::vector<char>(kSmallBuffer);
  std::string output_;
  std::shared_ptr<EventStream> events_;
  Peer peer_;
  std::string key_;
  std::uint64_t request_ = 0;  ///< counts requests and answers, to know a late reply
  int version_ = 11;
  bool needs_token_;
  bool keep_alive_ = true;
  bool is_head_ = false;    ///< the request under way is HEAD: its answer has no body
  bool is_native_ = false;  ///< the request under way asks for a route of Harpe's own
  bool reading_ = false;    ///< the deadline of the request under way is armed
  bool writing_ = false;    ///< events are on their way
};

}  // namespace

std::shared_ptr<ConnectionBase> make_connection(ConnectionHost& host, Socket socket, Peer peer,
                                                std::string key, bool needs_token) {
  return std::make_shared<Connection<Socket>>(host, std::move(socket), std::move(peer),
                                              std::move(key), needs_token);
}

std::shared_ptr<ConnectionBase> make_tls_connection(ConnectionHost& host, Socket socket,
                                                    asio::ssl::context& tls, Peer peer,
                                                    std::string key, bool needs_token) {
  return std::make_shared<Connection<TlsStream>>(host, TlsStream(std::move(socket), tls),
                                                 std::move(peer), std::move(key), needs_token);
}

}  // namespace harpe
