#pragma once
/// \file
/// One AMD GPU.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/rocm/amd_library.h"
#include "harpe/device/hw/rocm/amd_sysfs.h"

namespace harpe {

/// The graphics clock is limited from above through the performance level "determinism", which has
/// no lower end: of a range, only its highest clock is set. The memory clock and persistence mode
/// are not set; the driver keeps settings as long as it is loaded.
class AmdGpu final : public Gpu {
 public:
  AmdGpu(std::shared_ptr<AmdLibrary> library, int number, GpuIdentity identity, AmdSysfs sysfs)
      : library_(std::move(library)),
        number_(number),
        identity_(std::move(identity)),
        sysfs_(std::move(sysfs)) {}

  /// Remembers the counter, and later compares it with the power of the time between.
  void begin_energy_check(Instant now);
  void end_energy_check(Instant now);

  const GpuIdentity& identity() const override { return identity_; }
  void set_index(int index) override { identity_.index = index; }

  Result<Joules> total_energy() override;
  Result<Watts> instant_power() override;
  Result<Watts> average_power() override;
  Result<Megahertz> clock(ClockDomain domain) override;
  /// The driver takes every whole clock of the range; listed in steps of 50 MHz.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override;
  Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain) override;
  Result<Watts> power_limit() override;
  Result<PowerLimitRange> power_limit_range() override;
  Result<double> temperature() override;  ///< of the hottest spot
  Result<double> utilisation() override;
  Result<MemoryUse> memory() override;

  Status may_set() const override;
  Status set_locked_clocks(ClockDomain domain, ClockRange range) override;
  Status reset_locked_clocks(ClockDomain domain) override;
  Status set_power_limit(Watts limit) override;

 private:
  template <class T>
  Result<T> or_not_supported(const std::optional<T>& value, const char* what) const {
    if (!value) return not_supported(what);
    return *value;
  }

  std::shared_ptr<AmdLibrary> library_;
  int number_;  ///< the library's
  GpuIdentity identity_;
  AmdSysfs sysfs_;

  struct Check {
    Joules energy;
    Instant time;
  };
  std::optional<Check> check_;
  std::string no_energy_;  ///< why the counter is not used; empty: it is
};

}  // namespace harpe
