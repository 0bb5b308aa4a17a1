#pragma once
/// \file
/// The face of the room: energy of devices over windows of time, with error bars.

#include "harpe/measure/energy_estimator.h"  // IWYU pragma: export
#include "harpe/measure/energy_log.h"        // IWYU pragma: export
#include "harpe/measure/energy_monitor.h"    // IWYU pragma: export
#include "harpe/measure/switch_latency.h"    // IWYU pragma: export
