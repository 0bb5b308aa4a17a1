#pragma once
/// \file
/// The clock that jobs live by: seconds that rise evenly and never fall, whatever happens to the
/// clocks of the machine, and that go on where they were when a server starts again.
///
/// A store's clock begins at the seconds since 1970 at which the store was new, and then follows
/// the boot clock, which cannot be set and counts while the machine sleeps. What passed while no
/// server ran is told by the boot clock where the machine has not been booted since, else by its
/// wall clock, which is believed up to `kMostBelieved`: a wall clock that is years ahead must not
/// make every job old.

#include <functional>
#include <optional>
#include <string>

#include "harpe/base/units.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// The clocks of a machine.
struct MachineClocks {
  std::function<double()> boot_time;  ///< seconds since `boot`
  std::function<double()> wall;       ///< seconds since 1970, as the machine believes
  std::string boot;                   ///< the machine's start, told from all others

  static MachineClocks system();
};

/// Not thread-safe but for `now` and `wall`.
class ServiceClock {
 public:
  /// \param kept  what the store has kept; none: it is new
  explicit ServiceClock(MachineClocks clocks, const std::optional<ClockMark>& kept = {});

  Seconds now() const { return Seconds{base_ + clocks_.boot_time()}; }
  /// Since 1970. It may jump: for people alone.
  Seconds wall() const { return Seconds{clocks_.wall()}; }
  /// A time of this clock as one since 1970, by what the machine believes now, to milliseconds.
  Seconds shown(Seconds time) const;
  /// A time since 1970 as one of this clock.
  Seconds meant(Seconds shown) const { return shown + (now() - wall()); }
  ClockMark mark() const;

  static constexpr Seconds kMostBelieved{24.0 * 3600};

 private:
  MachineClocks clocks_;
  double base_ = 0;
};

}  // namespace harpe::training
