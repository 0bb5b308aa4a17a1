#pragma once
/// \file
/// Measured energy for people and as JSON: what `harpe run` and `harpe monitor` have in common.
/// Only for `.cc` files.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/device_options.h"
#include "harpe/command/command/json_output.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

/// The value, or nothing for an error: of readings that a device may not have.
template <class T>
std::optional<T> value_of(Result<T> result) {
  if (!result.ok()) return std::nullopt;
  return std::move(result).value();
}

/// "3 214.5 ± 1.2 J": as many digits as the error leaves; below 1 J in mJ; "± ?" where it
/// is not known.
std::string energy_text(const EnergyEstimate& energy);
/// An amount without an error: "1 077 J", "5.2 J", "36 mJ".
std::string joules_text(Joules energy);
/// "A40" of "NVIDIA A40", where columns are scarce.
std::string short_device_name(const std::string& name);

/// One line a device that was read, and their total where there are several, in so many
/// columns (0: any).
std::string energy_table(const WindowEnergy& window, int columns, bool coloured);

/// What the reader must know to judge the figures, one sentence a line: devices that failed, holes,
/// restarts, disagreement of sensors, throttling, accuracy of the sensors.
std::vector<std::string> energy_remarks(const WindowEnergy& window);

/// {"time_s", "devices": [...], "total": {...}}.
Json energy_json(const WindowEnergy& window);

/// Whether any of the GPUs is simulated.
bool any_simulated(const ChosenDevices& devices);
inline constexpr const char* kSimulatedRemark =
    "The GPUs are simulated: these figures are of no real device.";

}  // namespace harpe::command
