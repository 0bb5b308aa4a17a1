#pragma once
/// \file
/// What a service tells systemd: a few words in one datagram (sd_notify(3)); nothing where systemd
/// did not start it.

#include <optional>
#include <string_view>

#include "harpe/base/units.h"

namespace harpe::net {

/// Sends "READY=1" or the like to the socket in NOTIFY_SOCKET. False when there is none.
bool notify_systemd(std::string_view state);

/// How often systemd wants to hear "WATCHDOG=1" from this process; none: never.
std::optional<Seconds> watchdog_period();

}  // namespace harpe::net
