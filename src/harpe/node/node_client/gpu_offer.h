#pragma once
/// \file
/// What a GPU can be set to, and what of it the agent's policy lets this client set.

#include <optional>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"

namespace harpe {

struct WattRange {
  Watts lowest, highest;
};

struct GpuOffer {
  std::vector<Megahertz> clocks;          ///< graphics clocks that can be locked, rising
  std::optional<PowerLimitRange> limits;  ///< that can be set
  // The policy; empty: nothing.
  std::vector<ClockRange> allowed_clocks;
  std::vector<WattRange> allowed_limits;
  Seconds max_lease{};
};

}  // namespace harpe
