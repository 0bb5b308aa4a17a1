#pragma once
/// \file
/// The clock of jobs: seconds that rise evenly and never fall, whatever happens to the clocks of
/// the machine, and that continue when a server starts again.
///
/// A store's clock starts at the seconds since 1970 at which the store was new, and then follows
/// the boot clock, which cannot be set and counts while the machine sleeps. The time during which
/// no server ran is measured by the boot clock if the machine has not been booted since, else by
/// its wall clock, up to `kMostBelieved`: a wall clock that is years ahead must not make every job
/// old.

#include <functional>
#include <optional>
#include <string>

#include "harpe/base/units.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// The clocks of a machine.
struct MachineClocks {
  std::function<double()> boot_time;  ///< seconds since `boot`
  std::function<double()> wall;       ///< seconds since 1970, according to the machine
  std::string boot;                   ///< unique identifier of the machine's boot

  static MachineClocks system();
};

/// Not thread-safe, except `now` and `wall`.
class ServiceClock {
 public:
  /// \param kept  the mark in the store; nullopt if the store is new
  explicit ServiceClock(MachineClocks clocks, const std::optional<ClockMark>& kept = {});

  Seconds now() const { return Seconds{base_ + clocks_.boot_time()}; }
  /// Returns seconds since 1970. May jump: use it only for display.
  Seconds wall() const { return Seconds{clocks_.wall()}; }
  /// Converts a time of this clock to seconds since 1970 on the machine's current clock, rounded to
  /// milliseconds.
  Seconds shown(Seconds time) const;
  /// Converts a time since 1970 to a time of this clock.
  Seconds meant(Seconds shown) const { return shown + (now() - wall()); }
  ClockMark mark() const;

  static constexpr Seconds kMostBelieved{24.0 * 3600};

 private:
  MachineClocks clocks_;
  double base_ = 0;
};

}  // namespace harpe::training
