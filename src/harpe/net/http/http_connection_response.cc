// What a connection does from when it has a request to the end of its response.

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cstdio>

#include "harpe/net/http/http_connection.h"
#include "harpe/net/http/http_responses.h"

namespace harpe {

namespace asio = boost::asio;

namespace {

/// How long a client may take to read the last response before the connection goes.
constexpr Seconds kLinger{1};
/// Events sent before others have their turn.
constexpr int kEventsInARow = 16;
/// Responses up to this size are sent in one piece with their header.
constexpr std::size_t kOnePiece = 16 * 1024;

std::string chunk(const std::string& text) {
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return size.data() + text + "\r\n";
}

}  // namespace

void Connection::handle(HttpRequest request) {
  stage_ = Stage::kResponding;
  set_origin(request);
  version_ = request.version;
  is_head_ = request.method == "HEAD";
  is_native_ = is_native_path(request.path) || request.path == "/health";
  keep_alive_ = request.keep_alive;
  if (!share_.hold(request.body.capacity())) return respond(busy(kTooManyBytes), version_, false);
  const HttpLimits& limits = host_->limits;
  if (origin_.place == Admission::Place::kReserve) {
    keep_alive_ = false;
    if (!limits.is_vital || !limits.is_vital(request)) return refuse_place();
  }
  presence_ = std::make_shared<ClientPresence>();
  request.presence = presence_;
  respond_by_ = Clock::now() + duration(limits.response);
  arm(std::min(limits.response, limits.at_once), &Connection::not_answered_at_once);
  const std::uint64_t number = ++request_;
  // Replies come from any thread, at any time, or never.
  Reply reply = [weak = weak_from_this(), &context = host_->context,
                 number](HttpResponse response) {
    asio::post(context, [weak, number, response = std::move(response)]() mutable {
      const auto self = weak.lock();
      if (self == nullptr || self->request_ != number || self->stage_ == Stage::kClosed) return;
      self->respond(std::move(response), self->version_, self->keep_alive_);
    });
  };
  host_->handler(std::move(request), std::move(reply));
}

void Connection::not_answered_at_once() {
  if (Clock::now() >= respond_by_) return give_up();
  arm(respond_by_, &Connection::give_up);
  watch_client();
}

/// A client that waits long may leave meanwhile. What else it sends waits in memory, up to a piece.
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
        return arm(std::min(respond_by_, Clock::now() + duration(host_->limits.after_end)),
                   &Connection::close);
      case ByteStream::State::kFailed:
        return close();
    }
  }
}

void Connection::give_up() {
  // It counts as one that left: what still works for it can stop.
  if (const auto presence = std::exchange(presence_, nullptr)) presence->leave();
  respond(failure(504, host_->limits.late_response), version_, false);
}

HttpResponse Connection::failure(int status, const std::string& why) const {
  return is_native_ ? native_error(status, "unavailable", why) : text_response(status, why + "\n");
}

HttpResponse Connection::busy(const std::string& why) const {
  HttpResponse response = failure(503, why + "; try again in some seconds");
  response.headers.emplace_back("Retry-After", "5");
  return response;
}

void Connection::refuse_place() {
  if (stage_ == Stage::kHandshake) return close();
  respond(busy(host_->limits.full), version_, false);
}

void Connection::respond(HttpResponse response, int version, bool keep_alive) {
  ++request_;  // whatever the handler says from now on is late
  presence_.reset();
  if (const auto check = std::exchange(response.before_sending, nullptr)) check(response);
  if (response.stream != nullptr && !is_head_) return start_events(std::move(response));
  if (is_native_) end_line(response);
  keep_alive_ = keep_alive && !has_ended_ && response.stream == nullptr;
  std::string head = http_head(response, version, keep_alive_);
  std::string body = std::exchange(is_head_, false) ? std::string() : std::move(response.body);
  if (!share_.hold(head.size() + body.capacity())) {
    keep_alive_ = false;
    const HttpResponse refused = busy(kTooManyBytes);
    head = http_head(refused, version, keep_alive_);
    body = refused.body;
    share_.hold(head.size() + body.size());
  }
  send(std::move(head), std::move(body), keep_alive_ ? Next::kRead : Next::kLinger);
}

void Connection::send(std::string head, std::string body, Next next) {
  stage_ = Stage::kWriting;
  head_ = std::move(head);
  body_ = std::move(body);
  written_ = 0;
  next_ = next;
  if (body_.size() <= kOnePiece) head_ += std::exchange(body_, {});
  const double bytes = static_cast<double>(head_.size() + body_.size());
  arm(host_->limits.write + Seconds{bytes / host_->limits.slowest_write}, &Connection::close);
  flush();
}

void Connection::flush() {
  while (written_ < head_.size() + body_.size()) {
    const std::string_view rest = written_ < head_.size()
                                      ? std::string_view(head_).substr(written_)
                                      : std::string_view(body_).substr(written_ - head_.size());
    const ByteStream::Moved moved = stream_.write(rest);
    switch (moved.state) {
      case ByteStream::State::kDone:
        written_ += moved.bytes;
        break;
      case ByteStream::State::kWaitRead:
      case ByteStream::State::kWaitWrite:
        return wait(moved.state);
      default:
        return close();
    }
  }
  written();
}

void Connection::written() {
  head_ = body_ = std::string();
  share_.hold(reader_.held());
  next_ == Next::kRead ? begin_reading() : linger();
}

/// Closing with unread bytes would throw away the response that is still on its way.
void Connection::linger() {
  stage_ = Stage::kLingering;
  events_.reset();
  reader_.reset();
  unread_ = std::string();
  share_.hold(0);
  stream_.end_writing();
  arm(kLinger, &Connection::close);
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
  head_ = http_head(response, version_, false);
  body_.clear();
  written_ = 0;
  next_ = Next::kRead;
  arm(host_->limits.write, &Connection::close);
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
    if (!flush_events()) return;
    if (next_ == Next::kLinger) return linger();
    std::string text = events_->take();
    if (text.empty() && !events_->ended()) return disarm();
    if (text.empty()) next_ = Next::kLinger;
    head_ = version_ == 10 ? std::move(text) : chunk(text);
    written_ = 0;
    // It hears the newest when it comes again: no memory is kept for one that does not read.
    if (!share_.hold(head_.size())) return close();
    arm(host_->limits.write, &Connection::close);
  }
  asio::post(host_->context, [self = shared_from_this()] { self->proceed(); });
}

/// Whether everything was written.
bool Connection::flush_events() {
  while (written_ < head_.size()) {
    const ByteStream::Moved moved = stream_.write(std::string_view(head_).substr(written_));
    if (moved.state == ByteStream::State::kDone) {
      written_ += moved.bytes;
      continue;
    }
    if (moved.state == ByteStream::State::kEnd || moved.state == ByteStream::State::kFailed) {
      close();
    } else {
      wait(moved.state);
    }
    return false;
  }
  head_ = std::string();
  written_ = 0;
  share_.hold(0);
  return true;
}

/// Whatever else a client sends while it listens is thrown away; its end is noticed at once.
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

}  // namespace harpe
