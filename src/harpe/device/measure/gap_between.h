#pragma once
/// \file
/// Readings of counter and power beside and within a gap between two steps of the counter.

#include <cstddef>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/counter_history.h"
#include "harpe/device/measure/sampled_power.h"
#include "harpe/device/measure/step_gap.h"

namespace harpe::device {

/// Returns the gap between the knots `first` and `last` + 1, with the readings beside and within
/// it. If there is no knot after `last`, the gap is open and ends at `until`.
/// \param highest_power  highest power that the device can draw; 0 if unknown
StepGap gap_between(const CounterHistory& counter, const SampledPower& power, std::ptrdiff_t first,
                    std::ptrdiff_t last, Instant until, Watts highest_power);

}  // namespace harpe::device
