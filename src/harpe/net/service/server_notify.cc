#include "harpe/net/service/server_notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"

namespace harpe::net {
namespace {

/// Returns true if the process has a terminal. The kernel removes it from all processes of its
/// session when it closes.
bool has_terminal() {
  return static_cast<bool>(UniqueFd(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)));
}

}  // namespace

ControllingTerminal::ControllingTerminal() {
  struct sigaction hang_up{};
  const bool ignored = ::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN;
  was_there_ = !ignored && has_terminal();
}

bool ControllingTerminal::has_closed() const {
  return was_there_ && !has_terminal();
}

bool notify_systemd(std::string_view state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return false;
  const std::string_view path = name;
  sockaddr_un address{};
  if (path.size() < 2 || path.size() >= sizeof address.sun_path) return false;
  if (path[0] != '/' && path[0] != '@') return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // a name outside the file system
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  size) == static_cast<ssize_t>(state.size());
}

std::optional<Seconds> watchdog_period() {
  const char* microseconds = std::getenv("WATCHDOG_USEC");
  if (microseconds == nullptr) return std::nullopt;
  if (const char* pid = std::getenv("WATCHDOG_PID");
      pid != nullptr && parse_integer(pid) != ::getpid()) {
    return std::nullopt;
  }
  const auto period = parse_integer(microseconds);
  if (!period || *period <= 0) return std::nullopt;
  return Seconds{static_cast<double>(*period) * 1e-6};
}

}  // namespace harpe::net
