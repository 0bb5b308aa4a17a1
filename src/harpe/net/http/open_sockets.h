#pragma once
/// \file
/// All sockets that a server listens on, opened before anything else is done.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/http/server_socket.h"

namespace harpe::net {

/// The file of a Unix socket that this process made: gone with this at the latest.
class SocketFile {
 public:
  explicit SocketFile(std::filesystem::path path = {}) : path_(std::move(path)) {}
  SocketFile(SocketFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFile& operator=(SocketFile&&) = delete;
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile() { remove(); }

  void remove();

 private:
  std::filesystem::path path_;
};

/// A socket to serve and how.
struct OpenSocket {
  UniqueFd fd;
  std::string name;  ///< for people: its path, or address and port
  bool is_tcp = false;
  SocketFile file = SocketFile();  ///< after `fd`: goes while the socket still listens
};

/// Sockets that systemd opened in place of the Unix socket, if any, and what the options ask for.
/// \param tcp  "ADDRESS:PORT"; empty: none; \param tls  whether TLS will be spoken there
Result<std::vector<OpenSocket>> open_sockets(const std::optional<UnixSocketOptions>& unix_socket,
                                             const std::string& tcp, bool tls);

/// Removes the files of sockets while they still listen: another server that starts now leaves
/// them alone.
void remove_socket_files(std::vector<OpenSocket>& sockets);

}  // namespace harpe::net
