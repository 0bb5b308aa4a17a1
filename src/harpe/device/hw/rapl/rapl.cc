#include "harpe/device/hw/rapl/rapl.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/device/hw/sysfs.h"

namespace harpe::device {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRemedy =
    "only root may read CPU energy: use the agent (harpe agent), or run with sudo";

/// The counter of one zone.
class Zone {
 public:
  explicit Zone(const fs::path& directory)
      : energy_file_(directory / "energy_uj"), counter_(range_of(directory)) {}

  Result<Joules> read(Instant now) {
    int error = 0;
    const auto text = read_sysfs(energy_file_, error);
    if (!text) return failure(error);
    const auto value = parse_microjoules(*text);
    if (!value) {
      return Error::io(energy_file_.string(),
                       "expected a number of microjoules, found " + in_quotes(trim(*text)));
    }
    return counter_.add(*value, now);
  }

 private:
  static std::uint64_t range_of(const fs::path& directory) {
    int error = 0;
    const auto text = read_sysfs(directory / "max_energy_range_uj", error);
    return text ? parse_microjoules(*text).value_or(0) : 0;
  }

  Error failure(int error) const {
    const std::string reason = std::generic_category().message(error);
    if (error == EACCES || error == EPERM) {
      return {ErrorCode::kNoPermission,
              {{.file = energy_file_.string(), .message = reason + "; " + kRemedy}}};
    }
    const bool gone = error == ENOENT || error == ENODEV || error == ENODATA;
    return {gone ? ErrorCode::kUnavailable : ErrorCode::kIo,
            {{.file = energy_file_.string(), .message = reason}}};
  }

  fs::path energy_file_;
  EnergyCounter counter_;
};

class RaplCpu final : public Cpu {
 public:
  RaplCpu(int index, const PackageZone& zone, Clock& clock)
      : index_(index), name_(zone.name), clock_(clock), package_(zone.directory) {
    if (zone.dram) dram_.emplace(*zone.dram);
  }

  int index() const override { return index_; }
  const std::string& name() const override { return name_; }
  bool has_dram() const override { return dram_.has_value(); }

  Result<CpuEnergy> total_energy() override {
    const Instant now = clock_.now();
    const Joules package = HARPE_TRY(package_.read(now));
    CpuEnergy energy{.package = package, .dram = std::nullopt};
    if (dram_) {
      energy.dram = HARPE_TRY(dram_->read(now));
    }
    return energy;
  }

 private:
  int index_;
  std::string name_;
  Clock& clock_;
  Zone package_;
  std::optional<Zone> dram_;
};

std::string missing_text(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    return root.string() +
           " does not exist: most virtual machines and containers show no CPU energy; for a "
           "container, mount the host's /sys/class/powercap at /zeus_sys/class/powercap";
  }
  return "no CPU package under " + root.string() +
         ": the CPU has no energy counter, or the kernel module intel_rapl_msr is not loaded "
         "(modprobe intel_rapl_msr)";
}

/// Removes a number from the front and returns it; nullopt if it does not have 1 to 4 digits.
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

/// Returns the rank of a zone's registers; a package is metered by the zone of the lowest rank.
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
  // A package's zones are in its directory; the class directory also lists them beside it.
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

/// Additional time between two readings: the counter moves in steps, and both readings take time.
constexpr Seconds kSlack{0.1};

}  // namespace

RaplDevices open_rapl(const fs::path& root, Clock& clock) {
  RaplDevices devices{.cpus = {}, .state = {.name = "rapl", .available = false, .detail = {}}};
  std::size_t with_dram = 0;
  std::optional<Error> first_error;
  for (const PackageZone& zone : find_package_zones(root)) {
    auto cpu = std::make_unique<RaplCpu>(static_cast<int>(devices.cpus.size()), zone, clock);
    if (auto energy = cpu->total_energy(); energy.ok()) {
      with_dram += cpu->has_dram() ? 1 : 0;
    } else if (!first_error) {
      first_error = std::move(energy).error();
    }
    devices.cpus.push_back(std::move(cpu));
  }
  if (devices.cpus.empty()) {
    devices.state.detail = missing_text(root);
  } else if (first_error) {
    devices.state.detail = first_error->text();
  } else {
    devices.state.available = true;
    devices.state.detail = std::to_string(devices.cpus.size()) + " CPU package" +
                           (devices.cpus.size() == 1 ? "" : "s") + ", " +
                           std::to_string(with_dram) + " with memory";
  }
  return devices;
}

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
  // A package with several kinds of registers or several paths is listed once.
  std::ranges::sort(zones, {}, [](const PackageZone& zone) {
    return std::tuple{zone.order, !is_readable(zone.directory), preference(zone.directory),
                      zone.directory.native().size(), zone.directory};
  });
  const auto same = std::ranges::unique(zones, {}, &PackageZone::order);
  zones.erase(same.begin(), same.end());
  for (PackageZone& zone : zones) zone.dram = find_dram(zone.directory);
  return zones;
}

Joules EnergyCounter::add(std::uint64_t value_uj, Instant now) {
  std::uint64_t used = 0;
  if (last_ && value_uj >= last_->value) {
    used = value_uj - last_->value;
  } else if (last_) {
    const Seconds elapsed = std::max(now - last_->time, Seconds{0}) + kSlack;
    const double most = (highest_power_ * elapsed).value * 1e6;
    const bool in_range = last_->value <= range_;
    const std::uint64_t wrapped = in_range ? range_ - last_->value + value_uj : 0;
    const bool is_wrap = in_range && static_cast<double>(wrapped) <= most;
    if (is_wrap) {
      used = wrapped;
    } else if (static_cast<double>(value_uj) <= most) {
      used = value_uj;  // since its restart
    }
  }
  last_ = {.value = value_uj, .time = now};
  total_ += std::min(used, std::numeric_limits<std::uint64_t>::max() - total_);
  return {static_cast<double>(total_) * 1e-6};
}

}  // namespace harpe::device
