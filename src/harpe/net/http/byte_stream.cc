#include "harpe/net/http/byte_stream.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace harpe::net {
namespace {

using boost::system::error_code;

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int clamped(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

// --- The socket below OpenSSL -------------------------------------------------------------------
// OpenSSL's own socket BIO causes SIGPIPE in a process that writes to a closed peer.

int socket_of(BIO* bio) {
  return *static_cast<const int*>(BIO_get_data(bio));
}

int write_to_socket(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(socket_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && would_block(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_from_socket(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(socket_of(bio), data, static_cast<std::size_t>(size), 0);
  if (received < 0 && would_block(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

const BIO_METHOD* socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(method, write_to_socket);
    BIO_meth_set_read(method, read_from_socket);
    BIO_meth_set_ctrl(method, control_socket);
    return method;
  }();
  return kMethod;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

std::string tls_failure(SSL* tls) {
  const long verified = SSL_get_verify_result(tls);
  if (verified != X509_V_OK) {
    return std::string("certificate verify failed: ") + X509_verify_cert_error_string(verified);
  }
  const unsigned long error = ERR_get_error();
  if (error == 0) return "the connection was closed";
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "TLS failed";
}

}  // namespace

ByteStream::ByteStream(Socket socket, SSL_CTX* context) : socket_(std::move(socket)) {
  if (context == nullptr) return;
  begin_tls(context);
  SSL_set_accept_state(tls_.get());
}

ByteStream::ByteStream(Socket socket, SSL_CTX* context, const std::string& host)
    : socket_(std::move(socket)) {
  begin_tls(context);
  SSL_set_connect_state(tls_.get());
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), host.c_str());
  } else {
    SSL_set1_host(tls_.get(), host.c_str());
    // Only names, not addresses, are sent as SNI, for servers that share an address.
    SSL_set_tlsext_host_name(tls_.get(), host.c_str());
  }
}

ByteStream::~ByteStream() = default;

void ByteStream::begin_tls(SSL_CTX* context) {
  tls_.reset(SSL_new(context));
  // A partial write can continue from another place in memory; buffers exist only while
  // they hold bytes.
  SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
  BIO* bio = BIO_new(socket_method());
  descriptor_ = socket_.native_handle();
  BIO_set_data(bio, &descriptor_);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls_.get(), bio, bio);
}

ByteStream::State ByteStream::state_of(int returned) {
  switch (SSL_get_error(tls_.get(), returned)) {
    case SSL_ERROR_NONE:
      return State::kDone;
    case SSL_ERROR_WANT_READ:
      return State::kWaitRead;
    case SSL_ERROR_WANT_WRITE:
      return State::kWaitWrite;
    case SSL_ERROR_ZERO_RETURN:
      return State::kEnd;
    default:
      failure_ = tls_failure(tls_.get());
      ERR_clear_error();
      return State::kFailed;
  }
}

ByteStream::State ByteStream::handshake() {
  if (tls_ == nullptr || SSL_is_init_finished(tls_.get()) == 1) return State::kDone;
  ERR_clear_error();
  return state_of(SSL_do_handshake(tls_.get()));
}

ByteStream::Moved ByteStream::read(char* to, std::size_t size) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    const int received = SSL_read(tls_.get(), to, clamped(size));
    if (received > 0) return {State::kDone, static_cast<std::size_t>(received)};
    return {state_of(received), 0};
  }
  const ssize_t received = ::recv(socket_.native_handle(), to, size, 0);
  if (received > 0) return {State::kDone, static_cast<std::size_t>(received)};
  if (received == 0) return {State::kEnd, 0};
  if (would_block(errno)) return {State::kWaitRead, 0};
  failure_ = std::strerror(errno);
  return {State::kFailed, 0};
}

ByteStream::Moved ByteStream::write(std::string_view bytes) {
  if (bytes.empty()) return {State::kDone, 0};
  if (tls_ != nullptr) {
    ERR_clear_error();
    const int sent = SSL_write(tls_.get(), bytes.data(), clamped(bytes.size()));
    if (sent > 0) return {State::kDone, static_cast<std::size_t>(sent)};
    return {state_of(sent), 0};
  }
  const ssize_t sent = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return {State::kDone, static_cast<std::size_t>(sent)};
  if (would_block(errno)) return {State::kWaitWrite, 0};
  failure_ = std::strerror(errno);
  return {State::kFailed, 0};
}

void ByteStream::end_writing() {
  if (tls_ != nullptr && SSL_is_init_finished(tls_.get()) == 1) {
    ERR_clear_error();
    // Does not wait: if the socket has no room, the peer sees a truncated connection.
    static_cast<void>(SSL_shutdown(tls_.get()));
    ERR_clear_error();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

ByteStream::Moved ByteStream::discard(char* buffer, std::size_t size) {
  const ssize_t received = ::recv(socket_.native_handle(), buffer, size, 0);
  if (received > 0) return {State::kDone, static_cast<std::size_t>(received)};
  if (received < 0 && would_block(errno)) return {State::kWaitRead, 0};
  return {State::kEnd, 0};
}

void ByteStream::close() {
  error_code ignored;
  static_cast<void>(socket_.close(ignored));
}

void watch_over(int tcp_socket, Seconds silence) {
  const auto set = [&](int level, int name, int value) {
    static_cast<void>(::setsockopt(tcp_socket, level, name, &value, sizeof value));
  };
  constexpr int kProbes = 3, kBetween = 5;  // s
  const int idle = static_cast<int>(silence.value);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, (idle + kProbes * kBetween) * 1000);  // ms
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024);                         // bytes
}

}  // namespace harpe::net
