#pragma once
/// \file
/// One connection of the HTTP server. Only for its `.cc` files.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "harpe/net/http/admission.h"
#include "harpe/net/http/byte_budget.h"
#include "harpe/net/http/byte_stream.h"
#include "harpe/net/http/http_reader.h"
#include "harpe/net/http/http_server.h"

namespace harpe {

class Connection;

/// What connections need of their server. It outlives them: they keep it.
struct ConnectionHost {
  ConnectionHost(boost::asio::io_context& given_context, HttpHandler given_handler,
                 HttpLimits given_limits);
  virtual ~ConnectionHost() = default;
  /// A connection has ended.
  virtual void closed(const Connection& connection) = 0;
  /// It turns out to be of another server: its new place.
  virtual Admission::Place to_server(const Connection& connection) = 0;

  boost::asio::io_context& context;
  const HttpHandler handler;
  const HttpLimits limits;
  const std::shared_ptr<ByteBudget> budget;
  Turns handshakes;
  /// Where connections read to, one at a time: they hold no memory while they wait.
  std::vector<char> scratch;
};

/// Whose connection it is, and what it may.
struct ConnectionOrigin {
  Peer peer = {};
  std::string client = {};  ///< what it is counted by
  bool needs_token = false;
  Admission::Place place = Admission::Place::kUsual;
};

/// Goes through its stages until it is closed. Everything that waits keeps it and finds out, when
/// it is woken, whether it was closed meanwhile; nothing else keeps it.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// \param tls  null: in clear
  Connection(std::shared_ptr<ConnectionHost> host, ByteStream::Socket socket, SSL_CTX* tls,
             ConnectionOrigin origin);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void start();
  void close();
  const ConnectionOrigin& origin() const { return origin_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : unsigned char {
    kHandshake,   ///< of TLS
    kReading,     ///< a request, or waiting for one
    kResponding,  ///< the handler has a request
    kWriting,     ///< a response
    kListening,   ///< the client listens to events
    kLingering,   ///< the last response was sent, the client may still read it
    kClosed,
  };
  /// What time is counted for while reading.
  enum class Phase : unsigned char { kNone, kIdle, kHeader, kBody };
  /// What follows when everything was written.
  enum class Next : unsigned char { kRead, kLinger };
  using Late = void (Connection::*)();

  /// Bytes read at once where no body is known to follow: what is left of them waits in memory.
  static constexpr std::size_t kPiece = ByteBudget::kFree / 2;
  /// Bytes read before others have their turn.
  static constexpr std::size_t kInARow = 1024 * 1024;
  static constexpr const char* kTooManyBytes =
      "the server holds as many bytes of requests and responses as it may";

  static std::chrono::nanoseconds duration(Seconds seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds.value * 1e9));
  }

  void arm(Clock::time_point time, Late late);
  void arm(Seconds time, Late late);
  void disarm();

  /// Goes on in the stage it is in: something may be readable or writable.
  void proceed();
  void wait(ByteStream::State state);

  void begin_handshake();
  void shake_hands();
  void end_handshake();

  void begin_reading();
  void read();
  /// Whether reading goes on.
  bool advance(std::string_view bytes);
  void watch_phase();
  void too_slow();
  std::optional<HttpResponse> refuse_unread();
  void set_origin(HttpRequest& request);

  void handle(HttpRequest request);
  void not_answered_at_once();
  void watch_client();
  void give_up();

  HttpResponse failure(int status, const std::string& why) const;
  HttpResponse busy(const std::string& why) const;
  void refuse_place();
  void respond(HttpResponse response, int version, bool keep_alive);
  void send(std::string head, std::string body, Next next);
  void flush();
  void written();
  void linger();
  void drain();

  void start_events(HttpResponse response);
  void send_events();
  bool flush_events();
  void watch_listener();

  const std::shared_ptr<ConnectionHost> host_;
  ByteStream stream_;
  boost::asio::steady_timer deadline_;
  HttpReader reader_;
  ByteBudget::Share share_;
  ConnectionOrigin origin_;
  std::string unread_;       ///< what came with the last request
  std::string head_, body_;  ///< what is written
  std::size_t written_ = 0;  ///< bytes of both
  std::shared_ptr<EventStream> events_;
  std::shared_ptr<ClientPresence> presence_;  ///< of the request that the handler has
  Clock::time_point began_, respond_by_;
  std::uint64_t request_ = 0;  ///< counts requests and responses, to know a late reply
  Late late_ = nullptr;
  int version_ = 11;
  Stage stage_ = Stage::kHandshake;
  Phase phase_ = Phase::kNone;
  Next next_ = Next::kRead;
  bool has_turn_ = false;  ///< of a handshake
  bool keep_alive_ = true;
  bool is_head_ = false;    ///< the request under way is HEAD: its response has no body
  bool is_native_ = false;  ///< the request under way asks for a route of Harpe's own
  bool waits_to_read_ = false, waits_to_write_ = false;
  bool has_ended_ = false;  ///< the client sends nothing more
};

}  // namespace harpe
