#pragma once
/// \file
/// The knob of the power limits that Zeus tries, for tests.

#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/zeus/power_limit/knob.h"

namespace harpe::zeus {

/// Returns the limits `highest`, `highest - step`, ..., none below `lowest`.
inline Knob power_limits(Watts lowest, Watts highest, Watts step = {25}) {
  std::vector<double> settings;
  for (Watts limit = highest; limit >= lowest; limit = limit - step)
    settings.push_back(limit.value);
  return Knob::make(KnobKind::kPowerLimit, std::move(settings)).take();
}

}  // namespace harpe::zeus
