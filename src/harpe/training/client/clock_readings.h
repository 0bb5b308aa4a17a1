#pragma once
/// \file
/// Readings of the GPU's graphics clock during training, for ranks that set no clock.

#include <atomic>
#include <deque>
#include <span>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/device/hw/device.h"
#include "harpe/training/client/iteration_log.h"

namespace harpe::training {

/// Thread-safe. Reads nothing until it is enabled.
class ClockReadings {
 public:
  explicit ClockReadings(Clock& clock) : clock_(&clock) {}

  /// Turns the readings of `look` on or off.
  void enable(bool enabled) noexcept { enabled_ = enabled; }
  bool enabled() const noexcept { return enabled_; }
  /// Reads the clock once, on the thread that owns the GPU. A reading that fails is skipped.
  void look(Gpu& gpu);
  /// Returns the median of the readings during these instructions, 0 MHz if there are none. Drops
  /// older readings.
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

}  // namespace harpe::training
