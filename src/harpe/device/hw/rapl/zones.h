#pragma once
/// \file
/// The energy zones of the Linux power capping tree (kernel documentation, "Power Capping
/// Framework"): which directories meter which CPU package.
///
/// A control type ("intel-rapl", over model-specific registers or TPMI, on AMD too;
/// "intel-rapl-mmio", the same packages again over memory-mapped registers) has one zone for each
/// package, named in the file `name`: "package-0", or "package-0-die-1" where each die is metered.
/// Zones below it are parts of the package ("core", "uncore"), which are not added to it, and
/// "dram", which is beside it. "psys" meters the whole platform and is no package.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harpe {

/// "package-0" or "package-0-die-1".
struct PackageName {
  int package = 0;
  int die = 0;
  friend auto operator<=>(const PackageName&, const PackageName&) = default;
};
std::optional<PackageName> parse_package_name(std::string_view text);

/// The content of `energy_uj` or `max_energy_range_uj`: a whole number of microjoules.
std::optional<std::uint64_t> parse_microjoules(std::string_view text);

/// Where one package is metered.
struct PackageZone {
  PackageName order;
  std::string name;  ///< as in the file
  std::filesystem::path directory;
  std::optional<std::filesystem::path> dram;  ///< the zone of its memory
};

/// The packages under `root` (/sys/class/powercap), each once, in order; directories that are none
/// or cannot be read are passed over. Looks below the control types too, as containers get only
/// those mounted.
std::vector<PackageZone> find_package_zones(const std::filesystem::path& root);

}  // namespace harpe
