#include "harpe/device/hw/rapl/rapl.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/device/hw/rapl/energy_counter.h"
#include "harpe/device/hw/rapl/zones.h"
#include "harpe/device/hw/sysfs.h"

namespace harpe {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRemedy =
    "only root may read CPU energy: ask the agent (harpe agent), or run with sudo";

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
    return "there is no " + root.string() +
           ": virtual machines and containers mostly show no CPU energy; for a container, mount "
           "the host's /sys/class/powercap at /zeus_sys/class/powercap";
  }
  return "no CPU package under " + root.string() +
         ": the CPU has no energy counter, or the kernel module intel_rapl_msr is not loaded "
         "(modprobe intel_rapl_msr)";
}

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

}  // namespace harpe
