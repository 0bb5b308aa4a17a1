#include "harpe/net/http/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cstdio>

#include "harpe/net/http/http_responses.h"

namespace harpe::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kScratch = 64 * 1024;

/// The time that a client has to read the last response before the connection is closed.
constexpr Seconds kLinger{1};
/// Number of events sent before other connections are served.
constexpr int kEventsInARow = 16;
/// Responses up to this size are sent in one piece with their header.
constexpr std::size_t kOnePiece = 16 * 1024;

std::chrono::nanoseconds nanoseconds_of(Seconds seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds.value * 1e9));
}

Deadline::Clock::time_point after(Seconds seconds) {
  return Deadline::Clock::now() + nanoseconds_of(seconds);
}

std::string chunk(const std::string& text) {
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return size.data() + text + "\r\n";
}

}  // namespace

ConnectionHost::ConnectionHost(asio::io_context& given_context, HttpHandler given_handler,
                               HttpLimits given_limits)
    : context(given_context),
      handler(std::move(given_handler)),
      limits(std::move(given_limits)),
      budget(std::make_shared<ByteBudget>(
          ByteBudget::Limits{.total = limits.buffered, .per_client = limits.buffered / 2})),
      handshakes(limits.handshakes),
      scratch(kScratch) {}

Connection::Connection(std::shared_ptr<ConnectionHost> host, ByteStream::Socket socket,
                       SSL_CTX* tls, ConnectionOrigin origin)
    : host_(std::move(host)),
      stream_(std::move(socket), tls),
      deadline_(host_->context),
      reader_(host_->limits.sizes),
      share_(host_->budget, origin.client),
      origin_(std::move(origin)) {}

// --- Parts --------------------------------------------------------------------------------------

void Deadline::set(Clock::time_point time, std::function<void()> late) {
  const std::uint64_t number = ++number_;
  timer_.expires_at(time);
  timer_.async_wait([this, number, late = std::move(late)](error_code error) {
    // A wait that ended before it was cancelled completes without an error.
    if (!error && number == number_) late();
  });
}

void Deadline::cancel() {
  ++number_;
  error_code ignored;
  timer_.cancel(ignored);
}

void UnsentBytes::set(std::string head, std::string body) {
  head_ = std::move(head);
  body_ = std::move(body);
  written_ = 0;
  if (body_.size() <= kOnePiece) head_ += std::exchange(body_, {});
}

ByteStream::State UnsentBytes::write_to(ByteStream& stream) {
  while (written_ < size()) {
    const std::string_view rest = written_ < head_.size()
                                      ? std::string_view(head_).substr(written_)
                                      : std::string_view(body_).substr(written_ - head_.size());
    const ByteStream::Moved moved = stream.write(rest);
    if (moved.state != ByteStream::State::kDone) return moved.state;
    written_ += moved.bytes;
  }
  clear();
  return ByteStream::State::kDone;
}

HttpResponse RequestForm::failure(int status, const std::string& why) const {
  return is_native ? native_error(status, "unavailable", why) : text_response(status, why + "\n");
}

HttpResponse RequestForm::busy(const std::string& why) const {
  HttpResponse response = failure(503, why + "; try again in a few seconds");
  response.headers.emplace_back("Retry-After", "5");
  return response;
}

// --- Stages -------------------------------------------------------------------------------------

void Connection::start() {
  if (origin_.place == Admission::Place::kReserve) {
    arm(after(host_->limits.reserved), &Connection::refuse_place);
  }
  stream_.is_secure() ? begin_handshake() : begin_reading();
}

void Connection::close() {
  if (stage_ == Stage::kClosed) return;
  if (has_turn_) end_handshake();
  stage_ = Stage::kClosed;
  deadline_.cancel();
  stream_.close();
  events_.reset();
  reader_.reset();
  unread_ = std::string();
  unsent_.clear();
  share_.hold(0);
  host_->closed(*this, origin_);
  if (const auto presence = std::exchange(presence_, nullptr)) presence->leave();
}

// --- Waiting ------------------------------------------------------------------------------------

void Connection::arm(Deadline::Clock::time_point time, Late late) {
  deadline_.set(time, [self = shared_from_this(), late] {
    if (self->stage_ != Stage::kClosed) (*self.*late)();
  });
}

void Connection::wait(ByteStream::State state) {
  bool& waits = state == ByteStream::State::kWaitWrite ? waits_to_write_ : waits_to_read_;
  if (std::exchange(waits, true)) return;
  stream_.when(state, [self = shared_from_this(), &waits] {
    waits = false;
    self->proceed();
  });
}

void Connection::proceed() {
  switch (stage_) {
    case Stage::kHandshake:
      return shake_hands();
    case Stage::kReading:
      return read();
    case Stage::kResponding:
      return watch_client();
    case Stage::kWriting:
      return flush();
    case Stage::kListening:
      send_events();
      return watch_listener();
    case Stage::kLingering:
      return drain();
    case Stage::kClosed:
      return;
  }
}

// --- TLS ----------------------------------------------------------------------------------------

void Connection::begin_handshake() {
  const bool is_timed = origin_.place == Admission::Place::kReserve;
  if (!is_timed) arm(after(host_->limits.idle), &Connection::close);
  host_->handshakes.wait(origin_.client, [weak = weak_from_this(), is_timed] {
    const auto self = weak.lock();
    if (self == nullptr || self->stage_ == Stage::kClosed) return false;
    self->has_turn_ = true;
    if (!is_timed) self->arm(after(self->host_->limits.handshake), &Connection::close);
    asio::post(self->host_->context, [self] { self->proceed(); });
    return true;
  });
}

void Connection::shake_hands() {
  if (!has_turn_) return;
  switch (const ByteStream::State state = stream_.handshake()) {
    case ByteStream::State::kDone:
      end_handshake();
      return begin_reading();
    case ByteStream::State::kWaitRead:
    case ByteStream::State::kWaitWrite:
      return wait(state);
    case ByteStream::State::kFailed:
      end_handshake();
      return linger();  // so that the client can read the reason
    case ByteStream::State::kEnd:
      return close();
  }
}

void Connection::end_handshake() {
  has_turn_ = false;
  host_->handshakes.end(origin_.client);
}

// --- Reading ------------------------------------------------------------------------------------

void Connection::begin_reading() {
  stage_ = Stage::kReading;
  if (reader_.begun()) {
    phase_ = Phase::kHeader;  // after 100 Continue: the time of the same request still runs
  } else {
    phase_ = Phase::kNone;
    form_.is_head = form_.is_native = false;
  }
  watch_phase();
  // Bytes that TLS has read already do not make the socket readable.
  if (unread_.empty() && !stream_.is_secure()) return wait(ByteStream::State::kWaitRead);
  read();
}

void Connection::read() {
  std::size_t in_a_row = 0;
  while (stage_ == Stage::kReading) {
    if (!unread_.empty()) {
      const std::string bytes = std::exchange(unread_, {});
      if (!advance(bytes)) return;
      continue;
    }
    if (in_a_row > kInARow) {
      return asio::post(host_->context, [self = shared_from_this()] { self->proceed(); });
    }
    const std::size_t size = std::clamp(reader_.wanted(), kPiece, kScratch);
    const ByteStream::Moved moved = stream_.read(host_->scratch.data(), size);
    switch (moved.state) {
      case ByteStream::State::kDone:
        in_a_row += moved.bytes;
        if (!advance({host_->scratch.data(), moved.bytes})) return;
        break;
      case ByteStream::State::kWaitRead:
      case ByteStream::State::kWaitWrite:
        return wait(moved.state);
      default:
        return close();
    }
  }
}

bool Connection::advance(std::string_view bytes) {
  const HttpReader::State state = reader_.read(bytes);
  unread_ = bytes;
  switch (state) {
    case HttpReader::State::kNeedMore:
      watch_phase();
      if (!share_.hold(reader_.held())) {
        reader_.reset();
        respond(form_.busy(kTooManyBytes), 11, false);
        return false;
      }
      if (auto refused = refuse_unread()) {
        respond(*std::move(refused), form_.version, false);
        return false;
      }
      if (!reader_.take_continue()) return true;
      send("HTTP/1.1 100 Continue\r\n\r\n", {}, Next::kRead);
      return false;
    case HttpReader::State::kBad:
      form_.is_head = reader_.is_head();
      respond(reader_.bad(), 11, false);
      return false;
    case HttpReader::State::kDone:
      handle(reader_.take());
      return false;
  }
  return false;
}

void Connection::watch_phase() {
  const Phase phase = !reader_.begun()    ? Phase::kIdle
                      : reader_.in_body() ? Phase::kBody
                                          : Phase::kHeader;
  if (phase == phase_ || origin_.place == Admission::Place::kReserve) return;
  const HttpLimits& limits = host_->limits;
  // The time for a request runs from its first byte, so a slow trickle of bytes does not extend it.
  if (phase_ <= Phase::kIdle) began_ = Deadline::Clock::now();
  phase_ = phase;
  if (phase == Phase::kIdle) return arm(after(limits.idle), &Connection::close);
  arm(began_ + nanoseconds_of(phase == Phase::kBody ? limits.request : limits.header),
      &Connection::too_slow);
}

void Connection::too_slow() {
  // No response before a request: the client could take it for that to its next request.
  if (!reader_.asked()) return close();
  const bool in_body = reader_.in_body();
  reader_.reset();
  respond(text_response(408, in_body ? "the body did not arrive in time\n"
                                     : "the header did not arrive in time\n"),
          11, false);
}

void Connection::set_origin(HttpRequest& request) {
  request.peer = origin_.peer;
  request.client = origin_.client;
  request.needs_token = origin_.needs_token;
  if (!request.forwarded || !host_->limits.origin_of) return;
  std::optional<std::string> origin = host_->limits.origin_of(request);
  if (!origin) return;
  request.client = *std::move(origin);
  if (origin_.place == Admission::Place::kUsual) origin_.place = host_->to_server(origin_);
}

std::optional<HttpResponse> Connection::refuse_unread() {
  std::optional<HttpRequest> head = reader_.take_head();
  if (!head) return std::nullopt;
  set_origin(*head);
  form_ = {.version = head->version,
           .is_head = head->method == "HEAD",
           .is_native = is_native_path(head->path)};
  if (origin_.place == Admission::Place::kReserve) return form_.busy(host_->limits.full);
  return host_->limits.refuse_unread ? host_->limits.refuse_unread(*head) : std::nullopt;
}

// --- Responding ----------------------------------------------------------------------------------

void Connection::handle(HttpRequest request) {
  stage_ = Stage::kResponding;
  set_origin(request);
  form_ = {.version = request.version,
           .is_head = request.method == "HEAD",
           .is_native = is_native_path(request.path) || request.path == "/health"};
  keep_alive_ = request.keep_alive;
  if (!share_.hold(request.body.capacity())) {
    return respond(form_.busy(kTooManyBytes), form_.version, false);
  }
  const HttpLimits& limits = host_->limits;
  if (origin_.place == Admission::Place::kReserve) {
    keep_alive_ = false;
    if (!limits.is_vital || !limits.is_vital(request)) return refuse_place();
  }
  presence_ = std::make_shared<ClientPresence>();
  request.presence = presence_;
  respond_by_ = after(limits.response);
  arm(after(std::min(limits.response, limits.at_once)), &Connection::not_answered_at_once);
  const std::uint64_t number = ++request_;
  // The handler calls the reply on any thread, at any time, or never.
  Reply reply = [weak = weak_from_this(), &context = host_->context,
                 number](HttpResponse response) {
    asio::post(context, [weak, number, response = std::move(response)]() mutable {
      const auto self = weak.lock();
      if (self == nullptr || self->request_ != number || self->stage_ == Stage::kClosed) return;
      self->respond(std::move(response), self->form_.version, self->keep_alive_);
    });
  };
  host_->handler(std::move(request), std::move(reply));
}

void Connection::not_answered_at_once() {
  if (Deadline::Clock::now() >= respond_by_) return give_up();
  arm(respond_by_, &Connection::give_up);
  watch_client();
}

/// Detects whether a client leaves during a long request. Keeps further bytes from it in memory, at
/// most `kPiece`.
void Connection::watch_client() {
  while (unread_.size() < kPiece && !has_ended_) {
    const ByteStream::Moved moved = stream_.read(host_->scratch.data(), kPiece - unread_.size());
    switch (moved.state) {
      case ByteStream::State::kDone:
        unread_.append(host_->scratch.data(), moved.bytes);
        break;
      case ByteStream::State::kWaitRead:
      case ByteStream::State::kWaitWrite:
        return wait(moved.state);
      case ByteStream::State::kEnd:
        has_ended_ = true;
        return arm(std::min(respond_by_, after(host_->limits.after_end)), &Connection::close);
      case ByteStream::State::kFailed:
        return close();
    }
  }
}

void Connection::give_up() {
  // The client counts as gone, so that work for it can stop.
  if (const auto presence = std::exchange(presence_, nullptr)) presence->leave();
  respond(form_.failure(504, host_->limits.late_response), form_.version, false);
}

void Connection::refuse_place() {
  if (stage_ == Stage::kHandshake) return close();
  respond(form_.busy(host_->limits.full), form_.version, false);
}

void Connection::respond(HttpResponse response, int version, bool keep_alive) {
  ++request_;  // later replies of the handler are ignored
  presence_.reset();
  if (const auto check = std::exchange(response.before_sending, nullptr)) check(response);
  if (response.stream != nullptr && !form_.is_head) return start_events(std::move(response));
  if (form_.is_native) end_line(response);
  keep_alive_ = keep_alive && !has_ended_ && response.stream == nullptr;
  std::string head = http_head(response, version, keep_alive_);
  std::string body = std::exchange(form_.is_head, false) ? std::string() : std::move(response.body);
  if (!share_.hold(head.size() + body.capacity())) {
    keep_alive_ = false;
    const HttpResponse refused = form_.busy(kTooManyBytes);
    head = http_head(refused, version, keep_alive_);
    body = refused.body;
    share_.hold(head.size() + body.size());
  }
  send(std::move(head), std::move(body), keep_alive_ ? Next::kRead : Next::kLinger);
}

void Connection::send(std::string head, std::string body, Next next) {
  stage_ = Stage::kWriting;
  unsent_.set(std::move(head), std::move(body));
  next_ = next;
  const double bytes = static_cast<double>(unsent_.size());
  arm(after(host_->limits.write + Seconds{bytes / host_->limits.slowest_write}),
      &Connection::close);
  flush();
}

void Connection::flush() {
  if (!write_unsent()) return;
  share_.hold(reader_.held());
  next_ == Next::kRead ? begin_reading() : linger();
}

/// Returns true if everything was written; otherwise waits for the socket, or closes
/// a lost connection.
bool Connection::write_unsent() {
  const ByteStream::State state = unsent_.write_to(stream_);
  if (state == ByteStream::State::kDone) return true;
  const bool is_lost = state == ByteStream::State::kEnd || state == ByteStream::State::kFailed;
  is_lost ? close() : wait(state);
  return false;
}

/// Ends writing and reads the rest: closing a socket with unread bytes would drop the
/// response in transit.
void Connection::linger() {
  stage_ = Stage::kLingering;
  events_.reset();
  reader_.reset();
  unread_ = std::string();
  share_.hold(0);
  stream_.end_writing();
  arm(after(kLinger), &Connection::close);
  drain();
}

void Connection::drain() {
  std::size_t in_a_row = 0;
  while (in_a_row <= kInARow) {
    const ByteStream::Moved moved = stream_.discard(host_->scratch.data(), host_->scratch.size());
    if (moved.state == ByteStream::State::kWaitRead) return wait(moved.state);
    if (moved.state != ByteStream::State::kDone) return close();
    in_a_row += moved.bytes;
  }
  asio::post(host_->context, [self = shared_from_this()] { self->proceed(); });
}

// --- Events -------------------------------------------------------------------------------------

void Connection::start_events(HttpResponse response) {
  stage_ = Stage::kListening;
  events_ = std::move(response.stream);
  response.stream = events_;
  unsent_.set(http_head(response, form_.version, false));
  next_ = Next::kRead;
  arm(after(host_->limits.write), &Connection::close);
  events_->start([weak = weak_from_this(), &context = host_->context] {
    asio::post(context, [weak] {
      const auto self = weak.lock();
      if (self != nullptr && self->stage_ == Stage::kListening) self->send_events();
    });
  });
  proceed();
}

void Connection::send_events() {
  for (int sent = 0; sent < kEventsInARow; ++sent) {
    if (!write_unsent()) return;
    share_.hold(0);
    if (next_ == Next::kLinger) return linger();
    std::string text = events_->take();
    if (text.empty() && !events_->ended()) return deadline_.cancel();
    if (text.empty()) next_ = Next::kLinger;
    unsent_.set(form_.version == 10 ? std::move(text) : chunk(text));
    // A listener that reconnects gets the newest events, so no memory is kept for a slow listener.
    if (!share_.hold(unsent_.size())) return close();
    arm(after(host_->limits.write), &Connection::close);
  }
  asio::post(host_->context, [self = shared_from_this()] { self->proceed(); });
}

/// Discards bytes from a listening client, and closes the connection when the client ends it.
void Connection::watch_listener() {
  std::size_t in_a_row = 0;
  while (stage_ == Stage::kListening) {
    if (in_a_row > kInARow) {
      return asio::post(host_->context, [self = shared_from_this()] { self->proceed(); });
    }
    const ByteStream::Moved moved = stream_.read(host_->scratch.data(), host_->scratch.size());
    if (moved.state == ByteStream::State::kEnd || moved.state == ByteStream::State::kFailed) {
      return close();
    }
    if (moved.state != ByteStream::State::kDone) return wait(moved.state);
    in_a_row += moved.bytes;
  }
}

}  // namespace harpe::net
