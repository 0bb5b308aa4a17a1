#pragma once
/// \file
/// Where a token may travel unencrypted: to a loopback address, and nowhere else. Addresses decide,
/// not names: "127.0.0.1.evil.com" is a name, and a name may resolve to another address each time.

#include <curl/curl.h>
#include <sys/socket.h>

#include <string>

namespace harpe::net {

/// True for 127.0.0.0/8, ::1, 127.0.0.0/8 mapped to IPv6, and Unix sockets.
bool is_loopback(const sockaddr& address);

/// Holds one transfer that carries a token unencrypted to loopback addresses. Must outlive it.
class ClearTextGuard {
 public:
  /// Sets the options of a transfer: every socket of it is checked before it connects, and no proxy
  /// is used, which would pass the token on to anywhere. Connections that an unguarded transfer of
  /// the same handle left open may not be used again (CURLOPT_FRESH_CONNECT).
  void watch(CURL* easy);
  /// Whether an address beyond this machine was refused.
  bool refused() const { return refused_; }

  /// Opens a socket as CURLOPT_OPENSOCKETFUNCTION of every transfer. Programs that this one starts
  /// do not inherit it. \param guard  null if any address is allowed
  static curl_socket_t open_socket(void* guard, curlsocktype purpose, curl_sockaddr* address);

 private:
  bool refused_ = false;
};

/// Why a transfer was refused. \param url  without user and query
std::string clear_text_refusal(const std::string& url);

}  // namespace harpe::net
