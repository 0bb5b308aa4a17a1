#pragma once
/// \file
/// Sockets a server listens on, and who is at the other end of one.

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
  /// Everybody may connect: the policy says who may do what.
  unsigned int mode = 0666;
  std::optional<std::uint32_t> uid = {}, gid = {};  ///< none: this process's
  std::string who = "server";  ///< what listens, for errors: "another agent listens on ..."
};

inline constexpr const char* kRuntimeDirectory = "/run/harpe";
inline constexpr const char* kLogDirectory = "/var/log/harpe";
/// Whether a directory is there. Harpe's two usual ones are made, and no others: a mistyped path
/// must not become a new directory with root's rights.
Status usable_directory(const std::filesystem::path& directory);

/// A listening Unix socket. A socket at that path on which no process listens any more is replaced;
/// a live one is a conflict, any other file is left alone and is an error.
Result<UniqueFd> listen_unix(const UnixSocketOptions& options);

/// "127.0.0.1:4938", "[::1]:4938"; a host name is not looked up.
struct TcpAddress {
  std::string host;
  std::uint16_t port = 0;
  bool loopback = false;
};
Result<TcpAddress> parse_tcp_address(std::string_view text);
Result<UniqueFd> listen_tcp(const TcpAddress& address);

/// Sockets that systemd opened for this process (`sd_listen_fds(3)`), the variables that name them
/// taken out of the environment. Call once, before threads are started.
std::vector<UniqueFd> sockets_of_activation();
bool is_unix_socket(int fd);

/// The address that a TCP socket listens on, with the port that the kernel chose for port 0;
/// empty: not known.
std::string listening_address(int fd);

/// A URL with the name of this machine, which others know, where it means all of its addresses:
/// "http://0.0.0.0:7787", "https://[::]:7787".
std::string reachable_url(std::string url);

/// What connections are counted by: a user, or an address.
std::string peer_key(int fd, const Peer& peer);

/// Raises the limit of open files to what is allowed. Returns the limit.
std::uint64_t raise_file_limit();

/// How many connections fit in so many open files: in half of them at least. \param others  files
/// that are needed for other things; \param each  that a connection needs
std::size_t connections_within(std::uint64_t files, std::size_t others, std::size_t each);

// All sockets that a server listens on. A server opens them before it starts anything else.

/// Owns the file of a Unix socket that this process created. Removes it in the destructor at the
/// latest.
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
