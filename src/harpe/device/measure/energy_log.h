#pragma once
/// \file
/// A CSV file with one row per ended window, in the format of Zeus's monitor extended by CPUs,
/// memory and error bars: start_time (seconds since 1970), window_name (quoted if necessary),
/// elapsed_time (s), then `gpu0_energy`, `cpu0_energy`, `dram0_energy`... (J), then the same
/// devices with `_error` (half-width of the 95 % interval, J). Cells without a reading are empty.
///
///   harpe::EnergyLog log("energy.csv");
///   if (const auto used = monitor.end("epoch"); used.ok()) (void)log.append(*used);

#include <filesystem>
#include <string>

#include "harpe/base/result.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe {

/// Returns the heading for the devices of a window, or the row of a window; each with its line end.
std::string energy_log_heading(const WindowEnergy& window);
std::string energy_log_row(const WindowEnergy& window);

/// A log file, opened for each row and closed after it. Not thread-safe.
class EnergyLog {
 public:
  explicit EnergyLog(std::filesystem::path path) : path_(std::move(path)) {}

  /// Appends a row, after the heading in a new file. Fails, with a remedy, if the heading differs.
  Status append(const WindowEnergy& window);

 private:
  std::filesystem::path path_;
};

}  // namespace harpe
