#pragma once
/// \file
/// A connected socket that never blocks, in clear or with TLS. Only for `.cc` files.
///
/// Reading and writing happen at once or say what to wait for; what waits is told through `when`
/// alone, which keeps nothing of the stream: a stream may go at any time, also while something
/// waits for it.

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/generic/stream_protocol.hpp>

#include "harpe/base/units.h"

namespace harpe::net {

/// On the thread of its loop.
class ByteStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  enum class State : unsigned char {
    kDone,       ///< and so many bytes were moved
    kWaitRead,   ///< again when it is readable
    kWaitWrite,  ///< again when it is writable
    kEnd,        ///< the peer sends nothing more
    kFailed,     ///< the connection is lost, or the peer breaks the rules of TLS
  };
  struct Moved {
    State state = State::kDone;
    std::size_t bytes = 0;
  };

  /// \param context  to speak TLS as a server, kept as long as needed; null: in clear
  explicit ByteStream(Socket socket, SSL_CTX* context = nullptr);
  /// With TLS as a client of `host`, a name or an address, which the certificate must name.
  ByteStream(Socket socket, SSL_CTX* context, const std::string& host);
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  bool is_secure() const { return tls_ != nullptr; }
  /// Needed first with TLS; harmless without. kDone once it is through.
  State handshake();
  Moved read(char* to, std::size_t size);
  Moved write(std::string_view bytes);
  /// Tells the peer that nothing more comes. What it sends can still be thrown away.
  void end_writing();
  /// Reads what has come and throws it away; `buffer` is where to. Nothing can be read after it.
  Moved discard(char* buffer, std::size_t size);
  void close();

  /// Calls `ready` once: when the socket is readable or writable (`state` is kWaitRead or
  /// kWaitWrite), has ended, or was closed. Never from within this call.
  template <class Ready>
  void when(State state, Ready ready) {
    const auto kind = state == State::kWaitWrite ? Socket::wait_write : Socket::wait_read;
    socket_.async_wait(kind,
                       [ready = std::move(ready)](boost::system::error_code) mutable { ready(); });
  }

  /// Why the last call failed.
  const std::string& failure() const { return failure_; }

 private:
  struct FreeTls {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  void begin_tls(SSL_CTX* context);
  State state_of(int returned);

  Socket socket_;
  int descriptor_ = -1;  ///< of the socket, for what is below TLS
  std::unique_ptr<SSL, FreeTls> tls_;
  std::string failure_;
};

/// Has the kernel find out that a peer's machine is lost, whether it is being sent something or
/// not, and keep no more than some 100 KiB that a peer does not read. Harmless on other sockets.
/// \param silence  after which it is asked; 15 s later it is lost
void watch_over(int tcp_socket, Seconds silence);

}  // namespace harpe::net
