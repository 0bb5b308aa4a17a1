#include "harpe/net/http_client/clear_text.h"

#include <netinet/in.h>

#include <cstring>

namespace harpe::net {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_UNIX) return true;
  if (address.sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    return ntohl(four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 six{};
  std::memcpy(&six, &address, sizeof six);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return six.sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

void ClearTextGuard::watch(CURL* easy) {
  refused_ = false;
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &ClearTextGuard::open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
}

curl_socket_t ClearTextGuard::open_socket(void* guard, curlsocktype /*purpose*/,
                                          curl_sockaddr* address) {
  if (guard != nullptr && !is_loopback(address->addr)) {
    static_cast<ClearTextGuard*>(guard)->refused_ = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::string clear_text_refusal(const std::string& url) {
  return "a token is sent over https:// or to a loopback address only, and " + url + " is neither";
}

}  // namespace harpe::net
