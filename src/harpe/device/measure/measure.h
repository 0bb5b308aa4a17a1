#pragma once
/// \file
/// The face of the room: energy of devices over windows of time, with error bars.

#include "harpe/device/measure/energy_estimator.h"  // IWYU pragma: export
#include "harpe/device/measure/energy_log.h"        // IWYU pragma: export
#include "harpe/device/measure/energy_monitor.h"    // IWYU pragma: export
#include "harpe/device/measure/switch_latency.h"    // IWYU pragma: export
