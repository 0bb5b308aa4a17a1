#pragma once
/// \file
/// Graphics clocks of a rank's GPU, read while training runs: what clock it had where none is set.

#include <atomic>
#include <deque>
#include <span>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/client/iteration_log.h"
#include "harpe/hw/device.h"

namespace harpe {

/// Thread-safe. Reads nothing until it is asked to.
class ClockReadings {
 public:
  explicit ClockReadings(Clock& clock) : clock_(&clock) {}

  /// Whether `look` reads the clock.
  void enable(bool enabled) noexcept { enabled_ = enabled; }
  bool enabled() const noexcept { return enabled_; }
  /// Reads the clock once, on the thread that has the GPU. A GPU that does not tell adds nothing.
  void look(Gpu& gpu);
  /// The median of the readings during these instructions; 0 MHz: there are none. Forgets older
  /// readings.
  Megahertz during(std::span<const TimedInstruction> instructions);

 private:
  struct Reading {
    Instant at;  ///< the middle of the call
    Megahertz clock;
  };

  Clock* clock_;
  std::atomic<bool> enabled_ = false;
  Mutex mutex_;
  std::deque<Reading> readings_ HARPE_GUARDED_BY(mutex_);  ///< oldest first
};

}  // namespace harpe
