#pragma once
/// \file
/// Notifications of a service to systemd: one short datagram each (sd_notify(3)). No effect if
/// systemd did not start the service.

#include <optional>
#include <string_view>

#include "harpe/base/units.h"

namespace harpe::net {

/// The terminal that a daemon was started in. SIGHUP has two meanings: an operator requests that
/// logs are reopened, or the terminal has closed. A daemon that outlives its terminal would
/// continue without a visible log.
///
/// Thread-safe after construction.
class ControllingTerminal {
 public:
  /// Checks if this process has a terminal. Must run before SIGHUP handlers are set. A process that
  /// ignores SIGHUP (nohup) counts as having none, because its user wants it to outlive the
  /// terminal.
  ControllingTerminal();

  /// Returns true if there was a terminal, and it has closed.
  bool has_closed() const;

 private:
  bool was_there_ = false;
};

/// Sends, for example, "READY=1" to the socket in NOTIFY_SOCKET. Returns false if there is none.
bool notify_systemd(std::string_view state);

/// Returns the period in which systemd expects "WATCHDOG=1" from this process; nullopt if it
/// expects none.
std::optional<Seconds> watchdog_period();

}  // namespace harpe::net
