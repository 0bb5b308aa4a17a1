#pragma once
/// \file
/// What a service tells systemd: a few words in one datagram (sd_notify(3)); nothing where systemd
/// did not start it.

#include <optional>
#include <string_view>

#include "harpe/base/units.h"

namespace harpe::net {

/// The terminal that a daemon was started in. SIGHUP means two things: an operator asks for logs to
/// be opened again, or the terminal has closed. A daemon that outlived its terminal would go on
/// without a log, unseen.
///
/// Thread-safe after construction.
class ControllingTerminal {
 public:
  /// Looks whether this process has a terminal: before handlers of SIGHUP are set. A process that
  /// ignores SIGHUP (nohup) has none here, as its user has said that it outlives the terminal.
  ControllingTerminal();

  /// Returns true if there was a terminal, and it has closed.
  bool has_closed() const;

 private:
  bool was_there_ = false;
};

/// Sends "READY=1" or the like to the socket in NOTIFY_SOCKET. False when there is none.
bool notify_systemd(std::string_view state);

/// How often systemd wants to hear "WATCHDOG=1" from this process; none: never.
std::optional<Seconds> watchdog_period();

}  // namespace harpe::net
