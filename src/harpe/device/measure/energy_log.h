#pragma once
/// \file
/// A CSV file with one row for each ended window, as Zeus's monitor writes it, with CPUs, memory
/// and error bars added: start_time (seconds since 1970), window_name (quoted where needed),
/// elapsed_time (s), then `gpu0_energy`, `cpu0_energy`, `dram0_energy`... (J), then the same with
/// `_error` (half-width of the 95 % interval, J). A device without a reading has empty cells.
///
///   harpe::EnergyLog log("energy.csv");
///   if (const auto used = monitor.end("epoch"); used.ok()) (void)log.append(*used);

#include <filesystem>
#include <string>

#include "harpe/base/result.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe {

/// The heading for the devices of a window, and one row; each with its line end.
std::string energy_log_heading(const WindowEnergy& window);
std::string energy_log_row(const WindowEnergy& window);

/// Appends to a file, on the disk after each row. Not thread-safe.
class EnergyLog {
 public:
  explicit EnergyLog(std::filesystem::path path) : path_(std::move(path)) {}

  /// A new file gets a heading; a file with another heading is refused with what to do.
  Status append(const WindowEnergy& window);

 private:
  std::filesystem::path path_;
};

}  // namespace harpe
