#include "harpe/http/open_sockets.h"

#include <system_error>

namespace harpe {

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
    Result<UniqueFd> fd = listen_unix(*unix_socket);
    if (!fd.ok()) return std::move(fd).error();
    sockets.push_back(
        {*std::move(fd), unix_socket->path.string(), false, SocketFile(unix_socket->path)});
  }
  if (!tcp.empty()) {
    const Result<TcpAddress> address = parse_tcp_address(tcp);
    if (!address.ok()) return address.error();
    Result<UniqueFd> fd = listen_tcp(*address);
    if (!fd.ok()) return std::move(fd).error();
    const std::string name = address->port == 0 ? listening_address(fd->get()) : tcp;
    sockets.push_back({*std::move(fd), name + (tls ? " (TLS)" : " (without TLS)"), true});
  }
  return sockets;
}

void remove_socket_files(std::vector<OpenSocket>& sockets) {
  for (OpenSocket& socket : sockets) socket.file.remove();
}

}  // namespace harpe
