#include "harpe/net/http/open_sockets.h"

#include <system_error>

namespace harpe::net {

void SocketFile::remove() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  path_.clear();
}

Result<std::vector<OpenSocket>> open_sockets(const std::optional<UnixSocketOptions>& unix_socket,
                                             const std::string& tcp, bool tls) {
  std::vector<OpenSocket> sockets;
  for (UniqueFd& fd : sockets_of_activation()) {
    const bool is_tcp = !is_unix_socket(fd.get());
    sockets.push_back({std::move(fd), "socket of systemd", is_tcp});
  }
  if (sockets.empty() && unix_socket) {
    UniqueFd fd = HARPE_TRY(listen_unix(*unix_socket));
    sockets.push_back(
        {std::move(fd), unix_socket->path.string(), false, SocketFile(unix_socket->path)});
  }
  if (!tcp.empty()) {
    const TcpAddress address = HARPE_TRY(parse_tcp_address(tcp));
    UniqueFd fd = HARPE_TRY(listen_tcp(address));
    const std::string name = address.port == 0 ? listening_address(fd.get()) : tcp;
    sockets.push_back({std::move(fd), name + (tls ? " (TLS)" : " (without TLS)"), true});
  }
  return sockets;
}

void remove_socket_files(std::vector<OpenSocket>& sockets) {
  for (OpenSocket& socket : sockets) socket.file.remove();
}

}  // namespace harpe::net
