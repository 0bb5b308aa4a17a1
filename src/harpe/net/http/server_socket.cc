#include "harpe/net/http/server_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

constexpr int kBacklog = 4096;
constexpr int kFirstActivationFd = 3;

Error io_error(const std::string& what, const std::string& why = std::strerror(errno)) {
  return Error::io(what, why);
}

/// Returns the error of a call on a new socket, and removes the socket's file.
Error without_file(const std::filesystem::path& path) {
  Error error = io_error(path);
  ::unlink(path.c_str());
  return error;
}

/// Removes the socket that a dead server left at a path; fails if a server still uses it.
Status clear_stale_socket(const std::filesystem::path& path, const sockaddr_un& address,
                          const std::string& who) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? ok_status() : Status(io_error(path));
  }
  if (!S_ISSOCK(found.st_mode)) {
    return Error::of(
        ErrorCode::kConflict,
        path.string() +
            " exists and is not a socket. Remove it, or choose another path with --socket");
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return io_error("socket");
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN) {
    return Error::of(ErrorCode::kConflict,
                     "another " + who + " listens on " + path.string() +
                         "; stop it first, or choose another path with --socket");
  }
  if (errno != ECONNREFUSED) return io_error(path);
  if (::unlink(path.c_str()) != 0) return io_error(path);
  return ok_status();
}

Result<sockaddr_un> unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.empty() || text.size() >= sizeof address.sun_path) {
    return Error::invalid("the path of a socket must have 1 to " +
                          std::to_string(sizeof address.sun_path - 1) +
                          " bytes: " + in_quotes(text));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

/// Returns "127.0.0.1"; empty if it is not an internet address.
std::string host_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(),
                text.size());
  } else if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
                text.size());
  }
  return text.data();
}

}  // namespace

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

Status usable_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return ok_status();
  const bool is_ours = directory == kRuntimeDirectory || directory == kLogDirectory;
  if (!is_ours) {
    return io_error(
        directory,
        error && error.value() != ENOENT
            ? error.message()
            : "the directory does not exist: create it first (mkdir), with the owner and "
              "mode that you want");
  }
  // Not recursive: the parent exists on any machine, or something is wrong.
  if (::mkdir(directory.c_str(), directory == kLogDirectory ? 0750 : 0755) == 0) {
    return ok_status();
  }
  return io_error(directory, std::string(std::strerror(errno)) +
                                 ": run it as root, or choose other paths, such as --socket");
}

Result<UniqueFd> listen_unix(const UnixSocketOptions& options) {
  sockaddr_un address = HARPE_TRY(unix_address(options.path));
  if (options.path.has_parent_path()) {
    HARPE_TRY(usable_directory(options.path.parent_path()));
  }
  HARPE_TRY(clear_stale_socket(options.path, address, options.who));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return io_error("socket");
  // No other user may connect before the socket has its owner and mode.
  const mode_t old_mask = ::umask(0177);
  const int bound =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_un));
  const int why = errno;
  ::umask(old_mask);
  if (bound != 0) return io_error(options.path, std::strerror(why));
  if (options.uid || options.gid) {
    const uid_t uid = options.uid ? *options.uid : static_cast<uid_t>(-1);
    const gid_t gid = options.gid ? *options.gid : static_cast<gid_t>(-1);
    if (::chown(options.path.c_str(), uid, gid) != 0) return without_file(options.path);
  }
  if (::chmod(options.path.c_str(), options.mode) != 0) return without_file(options.path);
  if (::listen(fd.get(), kBacklog) != 0) return without_file(options.path);
  return fd;
}

Result<TcpAddress> parse_tcp_address(std::string_view text) {
  const std::string_view whole = trim(text);
  const std::size_t colon = whole.rfind(':');
  const auto wrong = [&] {
    return Error::invalid("expected ADDRESS:PORT such as 127.0.0.1:4938 or [::1]:4938, got " +
                          in_quotes(text));
  };
  if (colon == std::string_view::npos) return wrong();
  const auto port = parse_integer(whole.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) return wrong();
  std::string_view host = whole.substr(0, colon);
  TcpAddress address{.host = {}, .port = static_cast<std::uint16_t>(*port), .loopback = false};
  if (host.starts_with('[') && host.ends_with(']')) {
    address.host = host.substr(1, host.size() - 2);
    in6_addr parsed{};
    if (::inet_pton(AF_INET6, address.host.c_str(), &parsed) != 1) return wrong();
    address.loopback = IN6_IS_ADDR_LOOPBACK(&parsed);
    return address;
  }
  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.host.c_str(), &parsed) != 1) return wrong();
  address.loopback = ntohl(parsed.s_addr) >> 24 == 127;
  return address;
}

Result<UniqueFd> listen_tcp(const TcpAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  const std::string name = address.host + ":" + std::to_string(address.port);
  UniqueFd fd(::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return io_error("socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int bound = -1;
  if (six) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    ::inet_pton(AF_INET6, address.host.c_str(), &to.sin6_addr);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  if (bound != 0 || ::listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE)
      return Error::io(name,
                       "another process already listens on this port: choose another one (--tcp)");
    return io_error(name);
  }
  return fd;
}

std::vector<UniqueFd> sockets_of_activation() {
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  std::vector<UniqueFd> sockets;
  if (pid != nullptr && count != nullptr && parse_integer(pid) == ::getpid()) {
    const std::int64_t fds = parse_integer(count).value_or(0);
    for (int fd = kFirstActivationFd; fd < kFirstActivationFd + fds && fds < 1024; ++fd) {
      // Children must not inherit them, and accepting must not block.
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
      sockets.emplace_back(fd);
    }
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return sockets;
}

bool is_unix_socket(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

std::string listening_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const std::string host = host_text(address);
  if (address.ss_family == AF_INET) {
    return host + ":" +
           std::to_string(ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port));
  }
  if (address.ss_family != AF_INET6) return {};
  return "[" + host +
         "]:" + std::to_string(ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port));
}

std::string reachable_url(std::string url) {
  for (const std::string_view all : {"//0.0.0.0:", "//[::]:"}) {
    const std::size_t at = url.find(all);
    if (at == std::string::npos) continue;
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    url.replace(at + 2, all.size() - 3, name.data());
  }
  return url;
}

std::string peer_key(int fd, const Peer& peer) {
  if (peer.uid >= 0) return "user " + std::to_string(peer.uid);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "unknown";
  return "address " + host_text(address);
}

std::uint64_t raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::size_t connections_within(std::uint64_t files, std::size_t others, std::size_t each) {
  const std::uint64_t left = files - std::min<std::uint64_t>(others, files / 2);
  return static_cast<std::size_t>(std::max<std::uint64_t>(1, left / each));
}

}  // namespace harpe::net
