#pragma once
/// \file
/// The clock of the machine. The core has none: it is handed one where it needs time.
///
///   const harpe::Instant now = harpe::system_clock().now();

#include "harpe/base/clock.h"

namespace harpe {

/// CLOCK_BOOTTIME: goes on while the machine is suspended; not moved when the time of day is set.
Clock& system_clock();

}  // namespace harpe
