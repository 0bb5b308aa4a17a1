#pragma once
/// \file
/// What the amdgpu kernel driver shows of one GPU in sysfs (kernel documentation, "AMDGPU driver:
/// thermal and power"; hwmon interface): readable by everybody, and of the same format under every
/// version of ROCm.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"

namespace harpe::device {

/// Clocks of a `pp_dpm_sclk` ("0: 500Mhz", "1: 1700Mhz *"), rising; sleep states ("S: 19Mhz") are
/// left out. Lines that are none of these are passed over.
std::vector<Megahertz> parse_clock_levels(std::string_view text);

/// The highest graphics clock that `pp_od_clk_voltage` allows now: entry 1 below OD_SCLK or GFXCLK.
std::optional<Megahertz> parse_highest_graphics_clock(std::string_view text);

class AmdSysfs {
 public:
  /// The GPU at a PCI address among the cards of `drm_root`; where there is none, nothing can be
  /// read.
  AmdSysfs(const std::filesystem::path& drm_root, const std::string& pci);

  std::optional<Watts> instant_power() const;  ///< where the firmware has it (MI300 and later)
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
  /// Whether this process may write the settings.
  bool may_set() const;

 private:
  std::optional<Watts> microwatts(const char* file) const;
  std::optional<Megahertz> hertz(std::string_view label) const;

  // Nothing is below a file: so nothing is found where there is no such GPU.
  std::filesystem::path device_ = "/dev/null";
  std::filesystem::path hwmon_ = "/dev/null";
};

}  // namespace harpe::device
