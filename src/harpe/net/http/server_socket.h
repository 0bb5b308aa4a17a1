#pragma once
/// \file
/// Listening sockets of a server, and the identity of their peers.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/service/peer.h"

namespace harpe::net {

struct UnixSocketOptions {
  std::filesystem::path path = {};
  /// All users may connect: the policy decides what each may do.
  unsigned int mode = 0666;
  std::optional<std::uint32_t> uid = {}, gid = {};  ///< nullopt: the ids of this process
  std::string who = "server";  ///< listener, as named in errors: "another agent listens on ..."
};

inline constexpr const char* kRuntimeDirectory = "/run/harpe";
inline constexpr const char* kLogDirectory = "/var/log/harpe";
/// Fails if a directory does not exist. Creates Harpe's two default directories, but no others: a
/// mistyped path must not become a new directory with root's rights.
Status usable_directory(const std::filesystem::path& directory);

/// Opens a listening Unix socket. Replaces a socket file that no process listens on. Fails with a
/// conflict if a process listens on it, or if the path is any other kind of file, which is not
/// changed.
Result<UniqueFd> listen_unix(const UnixSocketOptions& options);

/// An address such as "127.0.0.1:4938" or "[::1]:4938"; host names are not resolved.
struct TcpAddress {
  std::string host;
  std::uint16_t port = 0;
  bool loopback = false;
};
Result<TcpAddress> parse_tcp_address(std::string_view text);
Result<UniqueFd> listen_tcp(const TcpAddress& address);

/// Returns the sockets that systemd opened for this process (`sd_listen_fds(3)`), and removes their
/// variables from the environment. Must be called once, before threads are started.
std::vector<UniqueFd> sockets_of_activation();
bool is_unix_socket(int fd);

/// Returns the address that a TCP socket listens on, with the port that the kernel chose for port
/// 0; empty if unknown.
std::string listening_address(int fd);

/// Returns the URL with the name of this machine in place of an address that means all addresses:
/// "http://0.0.0.0:7787", "https://[::]:7787".
std::string reachable_url(std::string url);

/// Returns the user or address that connections are counted under.
std::string peer_key(int fd, const Peer& peer);

/// Raises the limit of open files to its maximum. Returns the limit.
std::uint64_t raise_file_limit();

/// Returns the number of connections that fit into a limit of open files, using at least half of
/// it.
/// \param others  files needed for other purposes
/// \param each    files needed per connection
std::size_t connections_within(std::uint64_t files, std::size_t others, std::size_t each);

// All sockets that a server listens on. A server opens them before it starts anything else.

/// Owner of the file of a Unix socket that this process created. Removes the file in the destructor
/// at the latest.
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

/// A socket to serve, and its form.
struct OpenSocket {
  UniqueFd fd;
  std::string name;  ///< for people: its path, or address and port
  bool is_tcp = false;
  SocketFile file = SocketFile();  ///< declared after `fd`: removed while the socket still listens
};

/// Opens the sockets of the options. Uses the sockets that systemd opened, if any, instead of the
/// Unix socket.
/// \param tcp  "ADDRESS:PORT"; empty: none
/// \param tls  the TCP socket will use TLS; for its name only
Result<std::vector<OpenSocket>> open_sockets(const std::optional<UnixSocketOptions>& unix_socket,
                                             const std::string& tcp, bool tls);

/// Removes the files of sockets while they still listen, so that the files of another server that
/// starts now are not removed.
void remove_socket_files(std::vector<OpenSocket>& sockets);

}  // namespace harpe::net
