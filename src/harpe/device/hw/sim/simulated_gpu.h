#pragma once
/// \file
/// A simulated GPU as a device.

#include <memory>

#include "harpe/device/hw/device.h"
#include "harpe/device/hw/sim/simulation_core.h"

namespace harpe {

class SimulatedGpu final : public Gpu {
 public:
  SimulatedGpu(std::shared_ptr<SimulationCore> core, int index);

  const GpuIdentity& identity() const override { return identity_; }
  std::filesystem::path owner_lock() const override;
  std::filesystem::path device_file() const override { return spec().device_file; }
  Result<Joules> total_energy() override;
  Result<Watts> instant_power() override;
  Result<Watts> average_power() override;
  PowerScope power_scope() const override;
  Result<Megahertz> clock(ClockDomain domain) override;
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override;
  Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain) override;
  Result<Watts> power_limit() override;
  Result<Watts> enforced_power_limit() override;
  Result<PowerLimitRange> power_limit_range() override;
  Result<double> temperature() override;
  Result<double> utilisation() override;
  Result<MemoryUse> memory() override;
  Result<EventReasons> event_reasons() override;
  Result<bool> persistence_mode() override;
  Result<std::vector<std::int64_t>> processes() override;
  Status set_locked_clocks(ClockDomain domain, ClockRange range) override;
  Status reset_locked_clocks(ClockDomain domain) override;
  Status set_power_limit(Watts limit) override;
  Status set_persistence_mode(bool enabled) override;

 private:
  const SimulatedGpuSpec& spec() const { return core_->spec(index_); }
  /// What `reading` makes of the state now.
  template <class T, class Reading>
  Result<T> read(const Reading& reading);

  std::shared_ptr<SimulationCore> core_;
  int index_;
  GpuIdentity identity_;
};

}  // namespace harpe
