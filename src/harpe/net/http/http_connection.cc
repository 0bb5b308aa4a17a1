#include "harpe/net/http/http_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "harpe/net/http/http_responses.h"

namespace harpe {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kScratch = 64 * 1024;

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

Connection::~Connection() = default;

void Connection::start() {
  if (origin_.place == Admission::Place::kReserve) {
    arm(host_->limits.reserved, &Connection::refuse_place);
  }
  stream_.is_secure() ? begin_handshake() : begin_reading();
}

void Connection::close() {
  if (stage_ == Stage::kClosed) return;
  if (has_turn_) end_handshake();
  stage_ = Stage::kClosed;
  error_code ignored;
  deadline_.cancel(ignored);
  stream_.close();
  events_.reset();
  reader_.reset();
  for (std::string* text : {&unread_, &head_, &body_}) *text = std::string();
  share_.hold(0);
  host_->closed(*this);
  if (const auto presence = std::exchange(presence_, nullptr)) presence->leave();
}

// --- Waiting ------------------------------------------------------------------------------------

void Connection::arm(Clock::time_point time, Late late) {
  late_ = late;
  deadline_.expires_at(time);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    // A wait that had ended before it was cancelled comes without an error.
    if (error || self->stage_ == Stage::kClosed || self->late_ == nullptr) return;
    if (self->deadline_.expiry() > Clock::now()) return;
    (*self.*std::exchange(self->late_, nullptr))();
  });
}

void Connection::arm(Seconds time, Late late) {
  arm(Clock::now() + duration(time), late);
}

void Connection::disarm() {
  late_ = nullptr;
  error_code ignored;
  deadline_.cancel(ignored);
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
  if (!is_timed) arm(host_->limits.idle, &Connection::close);
  host_->handshakes.wait(origin_.client, [weak = weak_from_this(), is_timed] {
    const auto self = weak.lock();
    if (self == nullptr || self->stage_ == Stage::kClosed) return false;
    self->has_turn_ = true;
    if (!is_timed) self->arm(self->host_->limits.handshake, &Connection::close);
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
      return linger();  // it may read why
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
    phase_ = Phase::kHeader;  // after 100 Continue: its time goes on
  } else {
    phase_ = Phase::kNone;
    is_head_ = is_native_ = false;
  }
  watch_phase();
  // What TLS has read already shows in no socket.
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
        respond(busy(kTooManyBytes), 11, false);
        return false;
      }
      if (auto refused = refuse_unread()) {
        respond(*std::move(refused), version_, false);
        return false;
      }
      if (!reader_.wants_continue()) return true;
      send("HTTP/1.1 100 Continue\r\n\r\n", {}, Next::kRead);
      return false;
    case HttpReader::State::kBad:
      is_head_ = reader_.is_head();
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
  // The time for a request runs from its first byte: one byte now and then gains nothing.
  if (phase_ <= Phase::kIdle) began_ = Clock::now();
  phase_ = phase;
  if (phase == Phase::kIdle) return arm(limits.idle, &Connection::close);
  arm(began_ + duration(phase == Phase::kBody ? limits.request : limits.header),
      &Connection::too_slow);
}

void Connection::too_slow() {
  // A client that asked nothing gets no response: it could take that for one to its next request.
  if (!reader_.asked()) return close();
  const bool in_body = reader_.in_body();
  reader_.reset();
  respond(text_response(408, in_body ? "the body did not come in time\n"
                                     : "the header did not come in time\n"),
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
  if (origin_.place == Admission::Place::kUsual) origin_.place = host_->to_server(*this);
}

std::optional<HttpResponse> Connection::refuse_unread() {
  std::optional<HttpRequest> head = reader_.take_head();
  if (!head) return std::nullopt;
  set_origin(*head);
  version_ = head->version;
  is_head_ = head->method == "HEAD";
  is_native_ = is_native_path(head->path);
  if (origin_.place == Admission::Place::kReserve) return busy(host_->limits.full);
  return host_->limits.refuse_unread ? host_->limits.refuse_unread(*head) : std::nullopt;
}

}  // namespace harpe
