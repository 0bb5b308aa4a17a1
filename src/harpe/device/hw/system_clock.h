#pragma once
/// \file
/// The clock of the machine. The core has none: it is handed one where it needs time.
///
///   const harpe::Instant now = harpe::system_clock().now();

#include <functional>

#include "harpe/base/clock.h"

namespace harpe {

/// CLOCK_BOOTTIME: goes on while the machine is suspended; not moved when the time of day is set.
Clock& system_clock();

/// CLOCK_REALTIME: seconds since 1970.
double seconds_since_1970();

/// Returns the time of day at an instant of `clock`, in seconds since 1970, by how both clocks are
/// set now. A thread may be interrupted between its readings of two clocks, for a tenth of a second
/// on a busy machine: the time of day is read between two readings of `clock`, again if those are
/// far apart, and the closest pair counts.
double time_of_day_at(Instant at, const Clock& clock,
                      const std::function<double()>& time_of_day = seconds_since_1970);

}  // namespace harpe
