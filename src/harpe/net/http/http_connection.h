#pragma once
/// \file
/// One connection of the HTTP server. Only for its `.cc` files.

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "harpe/net/http/byte_stream.h"
#include "harpe/net/http/http_reader.h"
#include "harpe/net/http/http_server.h"

namespace harpe::net {

class Connection;

/// The client of a connection, and its rights.
struct ConnectionOrigin {
  Peer peer = {};
  std::string client = {};  ///< name that its limits are counted under
  bool needs_token = false;
  Admission::Place place = Admission::Place::kUsual;
};

/// The part of the server that connections use. Connections share ownership of it.
struct ConnectionHost {
  ConnectionHost(boost::asio::io_context& given_context, HttpHandler given_handler,
                 HttpLimits given_limits);
  virtual ~ConnectionHost() = default;
  /// Called when a connection has ended.
  virtual void closed(const Connection& connection, const ConnectionOrigin& origin) = 0;
  /// Called when a client proves to be another server. Returns the new place of its connection.
  virtual Admission::Place to_server(const ConnectionOrigin& origin) = 0;

  boost::asio::io_context& context;
  const HttpHandler handler;
  const HttpLimits limits;
  const std::shared_ptr<ByteBudget> budget;
  Turns handshakes;
  /// Buffer that connections read into, one at a time, so that they hold no memory while they wait.
  std::vector<char> scratch;
};

/// A timer with at most one pending action.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(boost::asio::io_context& context) : timer_(context) {}
  /// Calls `late` at `time`, instead of the action set before. `late` must keep this object alive.
  void set(Clock::time_point time, std::function<void()> late);
  void cancel();

 private:
  boost::asio::steady_timer timer_;
  std::uint64_t number_ = 0;  ///< of the newest action, to ignore cancelled ones
};

/// The bytes of a response, or of events, that are being written.
class UnsentBytes {
 public:
  void set(std::string head, std::string body = {});
  std::size_t size() const { return head_.size() + body_.size(); }  ///< including written bytes
  /// Writes as much as the stream accepts. Returns kDone if everything was written; otherwise the
  /// state that ended the write.
  ByteStream::State write_to(ByteStream& stream);
  void clear() { *this = {}; }

 private:
  std::string head_, body_;
  std::size_t written_ = 0;  ///< bytes of both
};

/// The form of the response to the current request.
struct RequestForm {
  int version = 11;
  bool is_head = false;    ///< HEAD: the response has no body
  bool is_native = false;  ///< true for Harpe's own routes, whose errors are JSON

  HttpResponse failure(int status, const std::string& why) const;
  HttpResponse busy(const std::string& why) const;
};

/// One connection, from its first byte until it is closed. Each pending wait holds a shared pointer
/// to it and checks on wake-up if it was closed in the meantime; nothing else holds one.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// \param tls  null for a connection without TLS
  Connection(std::shared_ptr<ConnectionHost> host, ByteStream::Socket socket, SSL_CTX* tls,
             ConnectionOrigin origin);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void close();

 private:
  enum class Stage : unsigned char {
    kHandshake,   ///< of TLS
    kReading,     ///< a request, or waiting for one
    kResponding,  ///< the handler is processing a request
    kWriting,     ///< a response
    kListening,   ///< sending events to the client
    kLingering,   ///< the last response was sent; the client may still read it
    kClosed,
  };
  /// The limit of time that applies while reading.
  enum class Phase : unsigned char { kNone, kIdle, kHeader, kBody };
  /// The next stage after everything was written.
  enum class Next : unsigned char { kRead, kLinger };
  using Late = void (Connection::*)();

  /// Bytes per read if no body is known to follow: unused ones stay in memory.
  static constexpr std::size_t kPiece = ByteBudget::kFree / 2;
  /// Bytes read before other connections are served.
  static constexpr std::size_t kInARow = 1024 * 1024;
  static constexpr const char* kTooManyBytes =
      "the server has reached its limit of bytes in requests and responses";

  void arm(Deadline::Clock::time_point time, Late late);
  /// Continues in the current stage: the socket may be readable or writable.
  void proceed();
  void wait(ByteStream::State state);

  void begin_handshake();
  void shake_hands();
  void end_handshake();

  void begin_reading();
  void read();
  /// Returns true if reading continues.
  bool advance(std::string_view bytes);
  void watch_phase();
  void too_slow();
  std::optional<HttpResponse> refuse_unread();
  void set_origin(HttpRequest& request);

  void handle(HttpRequest request);
  void not_answered_at_once();
  void watch_client();
  void give_up();

  void refuse_place();
  void respond(HttpResponse response, int version, bool keep_alive);
  void send(std::string head, std::string body, Next next);
  void flush();
  bool write_unsent();
  void linger();
  void drain();

  void start_events(HttpResponse response);
  void send_events();
  void watch_listener();

  const std::shared_ptr<ConnectionHost> host_;
  ByteStream stream_;
  Deadline deadline_;
  HttpReader reader_;
  ByteBudget::Share share_;
  ConnectionOrigin origin_;
  std::string unread_;  ///< bytes received after the last request
  UnsentBytes unsent_;
  std::shared_ptr<EventStream> events_;
  std::shared_ptr<ClientPresence> presence_;  ///< of the request that the handler is processing
  Deadline::Clock::time_point began_, respond_by_;
  std::uint64_t request_ = 0;  ///< number of requests and responses, to recognize a late reply
  RequestForm form_;
  Stage stage_ = Stage::kHandshake;
  Phase phase_ = Phase::kNone;
  Next next_ = Next::kRead;
  bool has_turn_ = false;  ///< of a handshake
  bool keep_alive_ = true;
  bool waits_to_read_ = false, waits_to_write_ = false;
  bool has_ended_ = false;  ///< the client sends nothing more
};

}  // namespace harpe::net
