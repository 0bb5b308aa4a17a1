#include "harpe/device/hw/rapl/zones.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <tuple>

#include "harpe/base/text.h"
#include "harpe/device/hw/sysfs.h"

namespace harpe {
namespace fs = std::filesystem;
namespace {

/// Takes a number of at most four digits from the front.
std::optional<int> take_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > 4) return std::nullopt;
  const auto value = parse_integer(text.substr(0, digits));
  text.remove_prefix(digits);
  return static_cast<int>(*value);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::vector<fs::path> directories_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.push_back(it->path());
  }
  std::ranges::sort(found);
  return found;
}

/// Over which registers: a package is metered by the first of these that has it.
int preference(const fs::path& directory) {
  return directory.filename().string().starts_with("intel-rapl-mmio") ? 1 : 0;
}

std::string name_of(const fs::path& directory) {
  return read_sysfs(directory / "name").value_or("");
}

bool is_readable(const fs::path& directory) {
  return ::faccessat(AT_FDCWD, (directory / "energy_uj").c_str(), R_OK, AT_EACCESS) == 0;
}

std::optional<fs::path> find_dram(const fs::path& package) {
  const std::string prefix = package.filename().string() + ":";
  // Its zones lie below it; the class directory lists them beside it as well.
  for (const fs::path& parent : {package, package.parent_path()}) {
    for (const fs::path& directory : directories_in(parent)) {
      if (directory.filename().string().starts_with(prefix) && name_of(directory) == "dram") {
        return directory;
      }
    }
  }
  return std::nullopt;
}

void add_zones(const fs::path& parent, std::vector<PackageZone>& zones) {
  for (const fs::path& directory : directories_in(parent)) {
    const std::string file = directory.filename().string();
    if (!file.starts_with("intel-rapl") || std::ranges::count(file, ':') != 1) continue;
    const std::string name = name_of(directory);
    const auto order = parse_package_name(name);
    if (!order) continue;
    zones.push_back({.order = *order, .name = name, .directory = directory, .dram = std::nullopt});
  }
}

}  // namespace

std::optional<PackageName> parse_package_name(std::string_view text) {
  text = trim(text);
  if (!take(text, "package-")) return std::nullopt;
  const auto package = take_number(text);
  if (!package) return std::nullopt;
  if (text.empty()) return PackageName{.package = *package, .die = 0};
  if (!take(text, "-die-")) return std::nullopt;
  const auto die = take_number(text);
  if (!die || !text.empty()) return std::nullopt;
  return PackageName{.package = *package, .die = *die};
}

std::optional<std::uint64_t> parse_microjoules(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::vector<PackageZone> find_package_zones(const fs::path& root) {
  std::vector<PackageZone> zones;
  add_zones(root, zones);
  for (const char* control_type : {"intel-rapl", "intel-rapl-mmio"}) {
    add_zones(root / control_type, zones);
  }
  // The same package over other registers, or reached on another path, comes once.
  std::ranges::sort(zones, {}, [](const PackageZone& zone) {
    return std::tuple{zone.order, !is_readable(zone.directory), preference(zone.directory),
                      zone.directory.native().size(), zone.directory};
  });
  const auto same = std::ranges::unique(zones, {}, &PackageZone::order);
  zones.erase(same.begin(), same.end());
  for (PackageZone& zone : zones) zone.dram = find_dram(zone.directory);
  return zones;
}

}  // namespace harpe
