#pragma once
/// \file
/// The clocks of the machine. Code in the core receives a `Clock` from its caller instead.
///
///   const harpe::Instant now = harpe::system_clock().now();

#include <functional>

#include "harpe/base/clock.h"

namespace harpe {

/// Returns the clock CLOCK_BOOTTIME, which runs while the machine is suspended and does not jump
/// when the time of day is set.
Clock& system_clock();

/// Returns the time of day (CLOCK_REALTIME) in seconds since 1970.
double seconds_since_1970();

/// Returns the time of day at an instant of `clock`, in seconds since 1970, from the present offset
/// between the two clocks. A thread may be interrupted between two readings, for a tenth of a
/// second on a busy machine. Therefore the time of day is read between two readings of `clock`,
/// repeatedly if they are far apart, and the closest pair is used.
double time_of_day_at(Instant at, const Clock& clock,
                      const std::function<double()>& time_of_day = seconds_since_1970);

}  // namespace harpe
