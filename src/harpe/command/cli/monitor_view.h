#pragma once
/// \file
/// What `harpe monitor` shows of one look at all devices. Only for `.cc` files.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harpe/command/command/json_output.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

/// What a GPU shows at one moment beside its energy. What cannot be read is empty.
struct GpuView {
  std::optional<Watts> power, limit;
  std::optional<Megahertz> clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  // Of a terminal's view alone.
  std::optional<Megahertz> highest_clock = {};
  std::optional<MemoryUse> memory = {};
};
GpuView view_of(Gpu& gpu);

/// One look at all devices: energy since the start, and power since the look before.
struct Look {
  WindowEnergy window;
  std::vector<GpuView> gpus;               ///< as the first devices of `window`
  std::vector<std::optional<Watts>> mean;  ///< of each device since the look before
};

/// What a device draws at the look: of a GPU by its sensor, else the mean since the look before.
std::optional<Watts> power_now(const Look& look, std::size_t device);

/// What stands in place of the power of a device that failed.
std::string fault_word(const Error& error);
/// One line: the time of day and each device's power.
std::string monitor_line(const Look& look, const std::string& time_of_day);

extern const char* const kMonitorCsvHeading;
/// One row a device. What is not known is empty.
std::string monitor_csv(const Look& look);
Json monitor_json(const Look& look, bool simulated);

}  // namespace harpe::command
