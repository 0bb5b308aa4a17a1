#pragma once
/// \file
/// Restores the clock lock of a GPU that a measurement changes.

#include <optional>

#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"

namespace harpe {

/// Puts the clocks of a GPU back when it goes away: to the lock that the driver had, or to none.
class ClockRestorer {
 public:
  explicit ClockRestorer(Gpu& gpu);
  ~ClockRestorer() { (void)restore(); }
  ClockRestorer(const ClockRestorer&) = delete;
  ClockRestorer& operator=(const ClockRestorer&) = delete;

  /// Now; nothing to do later.
  Status restore();
  /// Whether the lock before was known; otherwise it is removed.
  bool knows_before() const { return knows_before_; }

 private:
  Gpu* gpu_;
  std::optional<ClockRange> before_;
  bool knows_before_ = false;
  bool restored_ = false;
};

}  // namespace harpe
