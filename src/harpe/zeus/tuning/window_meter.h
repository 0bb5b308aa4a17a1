#pragma once
/// \file
/// Energy between two instants that have just passed, for one window at a time.

#include "harpe/base/clock.h"
#include "harpe/base/result.h"

namespace harpe::zeus {

struct MeteredWindow {
  Joules energy{};  ///< all GPUs of the job
  Joules error{};   ///< half-width of the 95 % interval
};

class WindowMeter {
 public:
  /// Counters that step more seldom than usual are taken as they stand.
  static constexpr Seconds kLongestSettling{1};

  virtual ~WindowMeter() = default;
  virtual Status begin(Instant at) = 0;
  /// Whether waiting makes the energy until then no better known.
  virtual bool settled(Instant at) const = 0;
  /// Waits until then, but no longer than `kLongestSettling`.
  virtual void settle(Instant at) = 0;
  virtual Result<MeteredWindow> end(Instant at) = 0;
  virtual void cancel() = 0;
};

}  // namespace harpe::zeus
