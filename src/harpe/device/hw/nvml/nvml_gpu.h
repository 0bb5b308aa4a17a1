#pragma once
/// \file
/// One NVIDIA GPU through NVML.
///
/// Power: fields 186 (instant) and 185 (average) where the driver has them, of the GPU alone; on
/// superchips whose driver meters only the module (GH200), of the module, which `power_scope`
/// says. Older drivers have only "power usage": on Ampere and later, but for GA100, that is an
/// average over a second; before, the moment (NVML reference, nvmlDeviceGetPowerUsage).
///
/// A GPU in MIG mode can be read as a whole; its clock and power limit are shared by all instances
/// and are not set.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/device/hw/device.h"
#include "harpe/device/hw/nvml/nvml_library.h"

namespace harpe {

class NvmlGpu final : public Gpu {
 public:
  /// Reads who it is. Fails when the GPU is lost or may not be used.
  static Result<std::unique_ptr<NvmlGpu>> open(std::shared_ptr<const NvmlLibrary> nvml, int index);

  const GpuIdentity& identity() const override { return identity_; }
  void set_index(int index) override { identity_.index = index; }
  PowerScope power_scope() const override { return scope_; }
  std::filesystem::path device_file() const override { return device_file_; }

  Result<Joules> total_energy() override;
  Result<Watts> instant_power() override;
  Result<Watts> average_power() override;
  Result<Megahertz> clock(ClockDomain domain) override;
  /// Graphics clocks are listed for each memory clock; these are the ones for the highest, which
  /// has them all: an idle GPU lowers its memory clock, and would show but a few.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override;
  Result<Watts> power_limit() override;
  Result<Watts> enforced_power_limit() override;
  Result<PowerLimitRange> power_limit_range() override;
  Result<double> temperature() override;
  Result<double> utilisation() override;
  Result<MemoryUse> memory() override;
  Result<EventReasons> event_reasons() override;
  Result<bool> persistence_mode() override;
  Result<std::vector<std::int64_t>> processes() override;  ///< the first 256

  Status may_set() const override;
  Status set_locked_clocks(ClockDomain domain, ClockRange range) override;
  Status reset_locked_clocks(ClockDomain domain) override;
  Status set_power_limit(Watts limit) override;
  Status set_persistence_mode(bool enabled) override;

 private:
  NvmlGpu(std::shared_ptr<const NvmlLibrary> nvml, NvmlDevice device)
      : nvml_(std::move(nvml)), device_(device) {}

  void read_identity();
  void find_power_source();
  const NvmlApi& api() const { return nvml_->api(); }
  /// Calls a function that may be missing; `what` completes "does not support ..." and "cannot
  /// ...".
  template <class... Parameters, class... Arguments>
  Status call(const std::string& what, int (*function)(NvmlDevice, Parameters...),
              Arguments... arguments) const;
  Result<double> field(unsigned id, unsigned scope, const std::string& what) const;
  Result<Watts> milliwatts(const std::string& what, int (*function)(NvmlDevice, unsigned*)) const;
  Result<std::vector<Megahertz>> memory_clocks() const;

  std::shared_ptr<const NvmlLibrary> nvml_;
  NvmlDevice device_;
  GpuIdentity identity_;
  std::filesystem::path device_file_;
  PowerScope scope_ = PowerScope::kGpu;
  bool has_instant_field_ = false;
  bool has_average_field_ = false;
  bool usage_is_average_ = false;
  bool has_module_energy_ = false;
};

}  // namespace harpe
