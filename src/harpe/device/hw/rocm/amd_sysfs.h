#pragma once
/// \file
/// Readings of one GPU from the amdgpu kernel driver's files in sysfs (kernel documentation,
/// "AMDGPU driver: thermal and power"; hwmon interface). All users may read the files, and their
/// format does not depend on the version of ROCm.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"

namespace harpe::device {

/// Returns the clocks of a `pp_dpm_sclk` ("0: 500Mhz", "1: 1700Mhz *") in ascending order. Ignores
/// sleep states ("S: 19Mhz") and all other lines.
std::vector<Megahertz> parse_clock_levels(std::string_view text);

/// Returns the highest graphics clock that a `pp_od_clk_voltage` allows: entry 1 below OD_SCLK or
/// GFXCLK; nullopt if there is no such entry.
std::optional<Megahertz> parse_highest_graphics_clock(std::string_view text);

class AmdSysfs {
 public:
  /// Finds the GPU at a PCI address among the cards of `drm_root`. Without it, nothing is readable.
  AmdSysfs(const std::filesystem::path& drm_root, const std::string& pci);

  std::optional<Watts> instant_power() const;  ///< if the firmware reports it (MI300 and later)
  std::optional<Watts> average_power() const;
  std::optional<Watts> power_limit() const;
  std::optional<Watts> lowest_power_limit() const;
  std::optional<Watts> highest_power_limit() const;
  std::optional<Watts> factory_power_limit() const;
  std::optional<Megahertz> graphics_clock() const;
  std::optional<Megahertz> memory_clock() const;
  std::optional<std::vector<Megahertz>> graphics_clock_levels() const;
  std::optional<double> hotspot_temperature() const;  ///< degrees Celsius
  std::optional<double> utilisation() const;          ///< 0 to 1
  std::optional<MemoryUse> memory() const;
  std::optional<std::string> unique_id() const;  ///< 16 hexadecimal digits
  std::optional<std::string> performance_level() const;
  std::optional<Megahertz> highest_graphics_clock() const;
  /// Returns true if this process may write any of the settings.
  bool may_set() const;

 private:
  std::optional<Watts> microwatts(const char* file) const;
  std::optional<Megahertz> hertz(std::string_view label) const;

  // No path exists below a file. So no file is found if there is no such GPU.
  std::filesystem::path device_ = "/dev/null";
  std::filesystem::path hwmon_ = "/dev/null";
};

}  // namespace harpe::device
