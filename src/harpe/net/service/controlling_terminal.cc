#include "harpe/net/service/controlling_terminal.h"

#include <fcntl.h>

#include <csignal>

#include "harpe/base/unique_fd.h"

namespace harpe::net {
namespace {

/// The kernel takes the terminal away from all processes of its session when it closes.
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

}  // namespace harpe::net
