// Functions that set clocks, limits and modes.
#include <algorithm>
#include <limits>

#include "library.h"

namespace harpe {
namespace {

int clock_of(const device::SimulatedGpuSpec& spec, ClockDomain domain, unsigned int mhz) {
  const int highest =
      domain == ClockDomain::kMemory ? spec.memory_clocks.back() : spec.gpu.max_clock.value;
  if (mhz == NVML_CLOCK_LIMIT_ID_TDP || mhz == NVML_CLOCK_LIMIT_ID_UNLIMITED) return highest;
  return static_cast<int>(
      std::min(mhz, static_cast<unsigned int>(std::numeric_limits<int>::max())));
}

nvmlReturn_t lock(nvmlDevice_t device, ClockDomain domain, unsigned int lowest,
                  unsigned int highest) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) {
    const device::SimulatedGpuSpec& spec = core.spec(gpu);
    return code_of(core.lock_clocks(
        gpu, domain, {true, clock_of(spec, domain, lowest), clock_of(spec, domain, highest)}));
  });
}

nvmlReturn_t unlock(nvmlDevice_t device, ClockDomain domain) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) {
    return code_of(core.lock_clocks(gpu, domain, {}));
  });
}

}  // namespace
}  // namespace harpe

using harpe::ClockDomain;
using harpe::with_device;
using harpe::device::SimulationCore;

// NOLINTBEGIN(readability-identifier-naming)

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int lowest_mhz,
                                          unsigned int highest_mhz) {
  return harpe::lock(device, ClockDomain::kGraphics, lowest_mhz, highest_mhz);
}
nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  return harpe::unlock(device, ClockDomain::kGraphics);
}
nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int lowest_mhz,
                                             unsigned int highest_mhz) {
  return harpe::lock(device, ClockDomain::kMemory, lowest_mhz, highest_mhz);
}
nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
  return harpe::unlock(device, ClockDomain::kMemory);
}
nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int mw) {
  return with_device(device, [&](SimulationCore& core, int gpu) {
    return harpe::code_of(core.set_power_limit(gpu, {mw / 1000.0}));
  });
}
nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t* value) {
  if (value == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (value->version != NVML_POWER_VALUE_V2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  // Some versions of the header document one byte, others four.
  if ((value->powerScope & 0xff) != NVML_POWER_SCOPE_GPU) return NVML_ERROR_NOT_SUPPORTED;
  return nvmlDeviceSetPowerManagementLimit(device, value->powerValueMw);
}
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned int mode) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (mode > 1) return NVML_ERROR_INVALID_ARGUMENT;
    return harpe::code_of(core.set_persistence(gpu, mode == 1));
  });
}

// NOLINTEND(readability-identifier-naming)
