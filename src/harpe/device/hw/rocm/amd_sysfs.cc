#include "harpe/device/hw/rocm/amd_sysfs.h"

#include <algorithm>
#include <system_error>

#include "harpe/base/text.h"
#include "harpe/device/hw/sysfs.h"

namespace harpe::device {
namespace fs = std::filesystem;
namespace {

/// More than the number of sensors of one kind, which are numbered from 1.
constexpr int kMostSensors = 16;

std::vector<fs::path> entries_of(const fs::path& directory, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  }
  std::ranges::sort(found);
  return found;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return trim(line);
}

/// Parses "1: 1700Mhz *" into its number and clock.
std::optional<std::pair<std::int64_t, Megahertz>> parse_level(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto number = parse_integer(line.substr(0, colon));
  const std::string rest = lower(trim(line.substr(colon + 1)));
  const std::size_t unit = rest.find("mhz");
  if (!number || unit == std::string::npos) return std::nullopt;
  const auto clock = parse_integer(std::string_view(rest).substr(0, unit));
  if (!clock || *clock <= 0 || *clock > 100'000) return std::nullopt;
  return std::pair{*number, Megahertz{static_cast<int>(*clock)}};
}

}  // namespace

std::vector<Megahertz> parse_clock_levels(std::string_view text) {
  std::vector<Megahertz> clocks;
  while (!text.empty()) {
    if (const auto level = parse_level(take_line(text))) clocks.push_back(level->second);
  }
  std::ranges::sort(clocks);
  const auto same = std::ranges::unique(clocks);
  clocks.erase(same.begin(), same.end());
  return clocks;
}

std::optional<Megahertz> parse_highest_graphics_clock(std::string_view text) {
  bool in_section = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto level = parse_level(line);
    if (!level && line.ends_with(':')) {
      in_section = line == "OD_SCLK:" || line == "GFXCLK:";
    } else if (in_section && level && level->first == 1) {
      return level->second;
    }
  }
  return std::nullopt;
}

AmdSysfs::AmdSysfs(const fs::path& drm_root, const std::string& pci) {
  for (const fs::path& card : entries_of(drm_root, "card")) {
    const std::string uevent = read_sysfs(card / "device" / "uevent").value_or("");
    // Connectors ("card0-DP-1") have no such file.
    if (("\n" + lower(uevent) + "\n").find("\npci_slot_name=" + pci + "\n") == std::string::npos) {
      continue;
    }
    device_ = card / "device";
    if (const auto monitors = entries_of(device_ / "hwmon", "hwmon"); !monitors.empty()) {
      hwmon_ = monitors.front();
    }
    return;
  }
}

std::optional<Watts> AmdSysfs::microwatts(const char* file) const {
  const auto value = read_sysfs_number(hwmon_ / file);
  if (!value) return std::nullopt;
  return Watts{static_cast<double>(*value) * 1e-6};
}

// A die whose power is metered by the other die of its module shows 0, which counts as no reading.
std::optional<Watts> AmdSysfs::instant_power() const {
  const auto power = microwatts("power1_input");
  return power && power->value > 0 ? power : std::nullopt;
}
std::optional<Watts> AmdSysfs::average_power() const {
  const auto power = microwatts("power1_average");
  return power && power->value > 0 ? power : std::nullopt;
}
std::optional<Watts> AmdSysfs::power_limit() const {
  return microwatts("power1_cap");
}
std::optional<Watts> AmdSysfs::lowest_power_limit() const {
  return microwatts("power1_cap_min");
}
std::optional<Watts> AmdSysfs::highest_power_limit() const {
  return microwatts("power1_cap_max");
}
std::optional<Watts> AmdSysfs::factory_power_limit() const {
  return microwatts("power1_cap_default");
}

std::optional<Megahertz> AmdSysfs::hertz(std::string_view label) const {
  for (int i = 1; i < kMostSensors; ++i) {
    const std::string sensor = "freq" + std::to_string(i);
    const auto name = read_sysfs(hwmon_ / (sensor + "_label"));
    if (!name) return std::nullopt;
    const auto value = read_sysfs_number(hwmon_ / (sensor + "_input"));
    if (*name == label && value && *value < 100'000'000'000) {
      return Megahertz{static_cast<int>(*value / 1'000'000)};
    }
  }
  return std::nullopt;
}
std::optional<Megahertz> AmdSysfs::graphics_clock() const {
  return hertz("sclk");
}
std::optional<Megahertz> AmdSysfs::memory_clock() const {
  return hertz("mclk");
}

std::optional<std::vector<Megahertz>> AmdSysfs::graphics_clock_levels() const {
  const auto text = read_sysfs(device_ / "pp_dpm_sclk");
  if (!text) return std::nullopt;
  return parse_clock_levels(*text);
}

std::optional<double> AmdSysfs::hotspot_temperature() const {
  for (int i = 1; i < kMostSensors; ++i) {
    const std::string sensor = "temp" + std::to_string(i);
    if (read_sysfs(hwmon_ / (sensor + "_label")) != "junction") continue;
    const auto value = read_sysfs_number(hwmon_ / (sensor + "_input"));
    if (value) return static_cast<double>(*value) * 1e-3;
  }
  return std::nullopt;
}

std::optional<double> AmdSysfs::utilisation() const {
  const auto percent = read_sysfs_number(device_ / "gpu_busy_percent");
  if (!percent || *percent > 100) return std::nullopt;
  return static_cast<double>(*percent) / 100;
}

std::optional<MemoryUse> AmdSysfs::memory() const {
  const auto used = read_sysfs_number(device_ / "mem_info_vram_used");
  const auto total = read_sysfs_number(device_ / "mem_info_vram_total");
  if (!used || !total || *used < 0 || *used > *total) return std::nullopt;
  return MemoryUse{.used_bytes = static_cast<std::uint64_t>(*used),
                   .total_bytes = static_cast<std::uint64_t>(*total)};
}

std::optional<std::string> AmdSysfs::unique_id() const {
  auto text = read_sysfs(device_ / "unique_id");
  if (!text || text->size() != 16 ||
      text->find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> AmdSysfs::performance_level() const {
  return read_sysfs(device_ / "power_dpm_force_performance_level");
}

std::optional<Megahertz> AmdSysfs::highest_graphics_clock() const {
  const auto text = read_sysfs(device_ / "pp_od_clk_voltage");
  return text ? parse_highest_graphics_clock(*text) : std::nullopt;
}

bool AmdSysfs::may_set() const {
  return may_write(hwmon_ / "power1_cap") ||
         may_write(device_ / "power_dpm_force_performance_level");
}

}  // namespace harpe::device
