#pragma once
/// \file
/// The rule that a token may be sent unencrypted only to a loopback address. Addresses decide, not
/// names: "127.0.0.1.evil.com" is a name, and a name may resolve to another address each time.

#include <curl/curl.h>
#include <sys/socket.h>

#include <string>

namespace harpe::net {

/// True for 127.0.0.0/8, ::1, 127.0.0.0/8 mapped to IPv6, and Unix sockets.
bool is_loopback(const sockaddr& address);

/// Guard that restricts one transfer with an unencrypted token to loopback addresses. Must outlive
/// the transfer.
class ClearTextGuard {
 public:
  /// Sets the options of a transfer: every socket of it is checked before it connects, and no proxy
  /// is used, because a proxy could send the token anywhere. Connections that an unguarded transfer
  /// of the same handle left open must not be reused (CURLOPT_FRESH_CONNECT).
  void watch(CURL* easy);
  /// Returns true if an address of another machine was refused.
  bool refused() const { return refused_; }

  /// Opens a socket, as CURLOPT_OPENSOCKETFUNCTION of every transfer. Child processes do not
  /// inherit it.
  /// \param guard  null if any address is allowed
  static curl_socket_t open_socket(void* guard, curlsocktype purpose, curl_sockaddr* address);

 private:
  bool refused_ = false;
};

/// Returns the reason why a transfer was refused.
/// \param url  without user and query
std::string clear_text_refusal(const std::string& url);

}  // namespace harpe::net
