#pragma once
/// \file
/// Output of measured energy, for people and as JSON, shared by `harpe run` and `harpe monitor`.
/// Include only in `.cc` files.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/device_options.h"
#include "harpe/command/command/json_output.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

/// Returns the value; nullopt for an error. For readings that a device may not have.
template <class T>
std::optional<T> value_of(Result<T> result) {
  if (!result.ok()) return std::nullopt;
  return std::move(result).value();
}

/// Returns, for example, "3 214.5 ± 1.2 J", with the digits that the error justifies; below 1 J in
/// mJ; "± ?" if the error is unknown.
std::string energy_text(const EnergyEstimate& energy);
/// Returns an amount without an error: "1 077 J", "5.2 J", "36 mJ".
std::string joules_text(Joules energy);
/// Returns "A40" for "NVIDIA A40", for narrow columns.
std::string short_device_name(const std::string& name);

/// Returns one line per device that was read, and their total if there are several, in at most
/// `columns` columns (0: any).
std::string energy_table(const WindowEnergy& window, int columns, bool coloured);

/// Returns the remarks needed to judge the figures, one sentence per line: devices that failed,
/// gaps, restarts, disagreement of sensors, throttling, accuracy of the sensors.
std::vector<std::string> energy_remarks(const WindowEnergy& window);

/// Returns {"time_s", "devices": [...], "total": {...}}.
Json energy_json(const WindowEnergy& window);

/// Returns true if any of the GPUs is simulated.
bool any_simulated(const ChosenDevices& devices);
inline constexpr const char* kSimulatedRemark =
    "The GPUs are simulated: these figures are of no real device.";

}  // namespace harpe::command
