#include "harpe/device/hw/rocm/rocm.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/text.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/rocm/amd_library.h"
#include "harpe/device/hw/rocm/amd_sysfs.h"

namespace harpe::device {
namespace {

constexpr int kClockStep = 50;
/// If counter and sensor differ by a larger factor, they do not measure the same thing.
constexpr double kMostDisagreement = 10;

/// One AMD GPU. Locking the graphics clock sets the performance level "determinism", which has only
/// an upper limit: only the highest clock of a range is set. The memory clock and persistence mode
/// cannot be set; the driver keeps settings as long as it is loaded.
class AmdGpu final : public Gpu {
 public:
  AmdGpu(std::shared_ptr<AmdLibrary> library, int number, GpuIdentity identity, AmdSysfs sysfs)
      : library_(std::move(library)),
        number_(number),
        identity_(std::move(identity)),
        sysfs_(std::move(sysfs)) {}

  /// Reads the energy counter; `end_energy_check` compares its rise with the power in between.
  void begin_energy_check(Instant now) {
    if (const Result<Joules> energy = library_->energy(number_); energy.ok()) {
      check_ = {.energy = *energy, .time = now};
    }
  }

  void end_energy_check(Instant now) {
    if (!check_) return;  // there is no counter: `total_energy` returns an error
    const Result<Joules> energy = library_->energy(number_);
    const Result<Watts> power = instant_power();
    if (!energy.ok() || !power.ok()) {
      no_energy_ = "its energy counter cannot be checked without a power reading";
      return;
    }
    const Joules expected = *power * (now - check_->time);
    const double ratio = (*energy - check_->energy) / expected;
    if (!(ratio > 1 / kMostDisagreement && ratio < kMostDisagreement)) {
      no_energy_ = "its energy counter counts " + shortest(ratio, 3) +
                   " times the energy that its power readings give (wrong before ROCm 6.3)";
    }
  }

  const GpuIdentity& identity() const override { return identity_; }
  void set_index(int index) override { identity_.index = index; }

  Result<Joules> total_energy() override {
    if (!no_energy_.empty()) {
      return Error::of(
          ErrorCode::kNotSupported,
          identity_.name + " (GPU " + std::to_string(identity_.index) + "): " + no_energy_);
    }
    return library_->energy(number_);
  }

  Result<Watts> instant_power() override {
    const auto power = sysfs_.instant_power();
    return or_not_supported(power ? power : sysfs_.average_power(), "reading its power");
  }

  Result<Watts> average_power() override {
    return or_not_supported(sysfs_.average_power(), "reading its average power");
  }

  Result<Megahertz> clock(ClockDomain domain) override {
    return or_not_supported(
        domain == ClockDomain::kGraphics ? sysfs_.graphics_clock() : sysfs_.memory_clock(),
        "reading its clocks");
  }

  /// Returns clocks in steps of 50 MHz; the driver accepts every integer clock of the range.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
    const auto levels = sysfs_.graphics_clock_levels();
    if (domain == ClockDomain::kMemory || !levels || levels->empty()) {
      return not_supported("locking its clocks");
    }
    std::vector<Megahertz> clocks;
    for (int clock = levels->front().value; clock < levels->back().value; clock += kClockStep) {
      clocks.push_back({clock});
    }
    clocks.push_back(levels->back());
    return clocks;
  }

  Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain) override {
    const auto level = sysfs_.performance_level();
    if (domain == ClockDomain::kMemory || !level) return Gpu::locked_clocks(domain);
    if (*level == "auto") return std::optional<ClockRange>{};
    const auto highest = sysfs_.highest_graphics_clock();
    const auto levels = sysfs_.graphics_clock_levels();
    if (*level != "perf_determinism" || !highest || !levels || levels->empty()) {
      return Error::of(ErrorCode::kNotSupported,
                       identity_.name + " (GPU " + std::to_string(identity_.index) +
                           ") has the performance level " + in_quotes(*level) +
                           ", whose clocks cannot be read; 'rocm-smi --resetclocks' ends it");
    }
    return std::optional(
        ClockRange{.lowest = std::min(levels->front(), *highest), .highest = *highest});
  }

  Result<Watts> power_limit() override {
    return or_not_supported(sysfs_.power_limit(), "a power limit");
  }

  Result<PowerLimitRange> power_limit_range() override {
    const auto lowest = sysfs_.lowest_power_limit();
    const auto highest = sysfs_.highest_power_limit();
    const auto factory = sysfs_.factory_power_limit();
    if (!lowest || !highest) return not_supported("a power limit");
    return PowerLimitRange{
        .lowest = *lowest, .highest = *highest, .factory = factory.value_or(*highest)};
  }

  /// Returns the temperature of the hottest spot.
  Result<double> temperature() override {
    return or_not_supported(sysfs_.hotspot_temperature(), "reading its temperature");
  }

  Result<double> utilisation() override {
    return or_not_supported(sysfs_.utilisation(), "reading its utilisation");
  }

  Result<MemoryUse> memory() override {
    return or_not_supported(sysfs_.memory(), "reading how much of its memory is used");
  }

  Status may_set() const override {
    if (sysfs_.may_set()) return ok_status();
    return Error::of(ErrorCode::kNoPermission,
                     std::string("setting clocks and limits: ") + kAmdRemedy);
  }

  Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
    if (domain == ClockDomain::kMemory) return not_supported("locking its memory clock");
    if (range.highest.value <= 0 || range.highest < range.lowest) {
      return Error::invalid("limiting its clock: " + std::to_string(range.lowest.value) + ".." +
                            std::to_string(range.highest.value) + " MHz is not a valid range");
    }
    return library_->set_highest_clock(number_, static_cast<std::uint64_t>(range.highest.value));
  }

  Status reset_locked_clocks(ClockDomain domain) override {
    if (domain == ClockDomain::kMemory) return not_supported("locking its memory clock");
    return library_->reset_clock(number_);
  }

  Status set_power_limit(Watts limit) override {
    if (!(limit.value >= 0) || limit.value > 1e6) {
      return Error::invalid("setting a power limit: out of range");
    }
    return library_->set_power_limit(number_,
                                     static_cast<std::uint64_t>(std::round(limit.value * 1e6)));
  }

 private:
  template <class T>
  Result<T> or_not_supported(const std::optional<T>& value, const char* what) const {
    if (!value) return not_supported(what);
    return *value;
  }

  std::shared_ptr<AmdLibrary> library_;
  int number_;  ///< number in the library
  GpuIdentity identity_;
  AmdSysfs sysfs_;

  struct Check {
    Joules energy;
    Instant time;
  };
  std::optional<Check> check_;
  std::string no_energy_;  ///< why the counter is not used; empty if it is used
};

constexpr Seconds kEnergyCheck{0.5};

GpuIdentity identity_of(AmdLibrary& library, int number, const std::string& pci,
                        const AmdSysfs& sysfs) {
  GpuIdentity identity{.index = number, .uuid = {}, .pci = pci, .name = {}, .backend = "rocm"};
  identity.name = library.model(number);
  if (identity.name.empty()) identity.name = "AMD GPU";
  // ROCm writes identifiers in this form, and ROCR_VISIBLE_DEVICES accepts it. Without one the PCI
  // address identifies the GPU as long as the node runs.
  identity.uuid = "GPU-" + sysfs.unique_id().value_or(pci);
  return identity;
}

}  // namespace

RocmDevices open_rocm(const std::string& amd_smi, const std::string& rocm_smi,
                      const std::filesystem::path& drm_root, Clock& clock) {
  RocmDevices devices{.gpus = {}, .state = {.name = "rocm", .available = false, .detail = {}}};
  Result<std::shared_ptr<AmdLibrary>> library = AmdLibrary::load(amd_smi, rocm_smi);
  if (!library.ok()) {
    devices.state.detail = library.error().text();
    return devices;
  }
  devices.state.available = true;
  devices.state.detail = (*library)->name();
  std::vector<std::unique_ptr<AmdGpu>> gpus;
  for (int i = 0; i < (*library)->gpus(); ++i) {
    const Result<std::string> pci = (*library)->pci(i);
    if (!pci.ok()) {
      devices.state.detail += "; GPU " + std::to_string(i) + ": " + pci.error().text();
      continue;
    }
    AmdSysfs sysfs(drm_root, *pci);
    GpuIdentity identity = identity_of(**library, i, *pci, sysfs);
    gpus.push_back(std::make_unique<AmdGpu>(*library, i, std::move(identity), std::move(sysfs)));
  }
  if (gpus.empty()) return devices;
  for (const auto& gpu : gpus) gpu->begin_energy_check(clock.now());
  clock.sleep_until(clock.now() + kEnergyCheck);
  for (auto& gpu : gpus) {
    gpu->end_energy_check(clock.now());
    devices.gpus.push_back(std::move(gpu));
  }
  return devices;
}

}  // namespace harpe::device
