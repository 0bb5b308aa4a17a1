#pragma once
/// \file
/// A connected non-blocking socket, with or without TLS. Include only in `.cc` files.
///
/// Reads and writes complete at once or return the event to wait for. Only `when` notifies a
/// waiter, and it holds no reference to the stream, so a stream may be destroyed at any time, even
/// while something waits for it.

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

/// Used only on the thread of its loop.
class ByteStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  enum class State : unsigned char {
    kDone,       ///< `bytes` bytes were moved
    kWaitRead,   ///< repeat when the socket is readable
    kWaitWrite,  ///< repeat when the socket is writable
    kEnd,        ///< the peer sends nothing more
    kFailed,     ///< the connection is lost, or the peer violates TLS
  };
  struct Moved {
    State state = State::kDone;
    std::size_t bytes = 0;
  };

  /// \param context  for TLS as a server; the stream keeps a reference. Null: no TLS
  explicit ByteStream(Socket socket, SSL_CTX* context = nullptr);
  /// Uses TLS as a client of `host`, a name or an address, which the certificate must name.
  ByteStream(Socket socket, SSL_CTX* context, const std::string& host);
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  bool is_secure() const { return tls_ != nullptr; }
  /// Performs the TLS handshake, which must come first. Returns kDone once it is complete, and
  /// without TLS.
  State handshake();
  Moved read(char* to, std::size_t size);
  Moved write(std::string_view bytes);
  /// Tells the peer that nothing more will be sent. Bytes of the peer can still be discarded.
  void end_writing();
  /// Reads the bytes that have arrived and discards them; `buffer` is working memory. The stream
  /// cannot be read after it.
  Moved discard(char* buffer, std::size_t size);
  void close();

  /// Calls `ready` once when the socket is readable or writable (`state` is kWaitRead or
  /// kWaitWrite), has ended, or was closed. Never calls it from within this function.
  template <class Ready>
  void when(State state, Ready ready) {
    const auto kind = state == State::kWaitWrite ? Socket::wait_write : Socket::wait_read;
    socket_.async_wait(kind,
                       [ready = std::move(ready)](boost::system::error_code) mutable { ready(); });
  }

  /// Returns the reason why the last call failed.
  const std::string& failure() const { return failure_; }

 private:
  struct FreeTls {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  void begin_tls(SSL_CTX* context);
  State state_of(int returned);

  Socket socket_;
  int descriptor_ = -1;  ///< of the socket, for the layer below TLS
  std::unique_ptr<SSL, FreeTls> tls_;
  std::string failure_;
};

/// Makes the kernel detect that a peer's machine is lost, both while bytes are sent and while the
/// connection is silent, and buffer at most about 100 KiB that a peer does not read. No effect on
/// other sockets.
/// \param silence  after which the kernel probes the peer; 15 s later the peer counts as lost
void watch_over(int tcp_socket, Seconds silence);

}  // namespace harpe::net
