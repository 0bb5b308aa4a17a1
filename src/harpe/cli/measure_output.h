#pragma once
/// \file
/// Measured energy for people and as JSON: what `harpe run` and `harpe monitor` have in common.
/// Only for `.cc` files.

#include <string>
#include <vector>

#include "harpe/cli/device_options.h"
#include "harpe/cli/json_output.h"
#include "harpe/measure/energy_monitor.h"

namespace harpe {

/// "3 214.5 +- 1.2 J": as many digits as the error leaves.
std::string energy_text(const EnergyEstimate& energy);

/// One line a device that told something, and their total where there are several.
std::string energy_table(const WindowEnergy& window, bool coloured);

/// What the reader must know to judge the figures, one sentence a line: devices that failed, holes,
/// restarts, disagreement of sensors, throttling, accuracy of the sensors.
std::vector<std::string> energy_remarks(const WindowEnergy& window);

/// {"time_s", "devices": [...], "total": {...}}.
Json energy_json(const WindowEnergy& window);
Json estimate_json(const EnergyEstimate& energy);

/// Whether any of the GPUs is simulated.
bool any_simulated(const ChosenDevices& devices);
inline constexpr const char* kSimulatedRemark =
    "The GPUs are simulated: these figures are of no real device.";

}  // namespace harpe
