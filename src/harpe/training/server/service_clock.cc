#include "harpe/training/server/service_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/device/hw/system_clock.h"
#include "harpe/training/store/process_identity.h"

namespace harpe::training {

MachineClocks MachineClocks::system() {
  return {.boot_time = [] { return (system_clock().now() - Instant{}).value; },
          .wall = seconds_since_1970,
          .boot = ProcessIdentity::own().boot};
}

ServiceClock::ServiceClock(MachineClocks clocks, const std::optional<ClockMark>& kept)
    : clocks_(std::move(clocks)) {
  const double boot_time = clocks_.boot_time();
  if (!kept) {
    base_ = clocks_.wall() - boot_time;
    return;
  }
  const bool same_boot = !kept->boot.empty() && kept->boot == clocks_.boot;
  const double away = same_boot ? std::max(0.0, boot_time - kept->boot_time)
                                : std::clamp(clocks_.wall() - kept->wall, 0.0, kMostBelieved.value);
  base_ = kept->seconds + away - boot_time;
}

Seconds ServiceClock::shown(Seconds time) const {
  const double since_1970 = (time + (wall() - now())).value;
  return Seconds{std::round(since_1970 * 1000) / 1000};
}

ClockMark ServiceClock::mark() const {
  return {.seconds = now().value,
          .boot = clocks_.boot,
          .boot_time = clocks_.boot_time(),
          .wall = clocks_.wall()};
}

}  // namespace harpe::training
