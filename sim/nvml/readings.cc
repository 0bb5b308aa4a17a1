// Sensor readings.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "library.h"

namespace harpe {
namespace {

double milli(double value) {
  return std::max(0.0, std::round(value * 1000));
}

/// Reads a clock of one of NVML's domains; the video clock is not simulated.
template <class Reading>
nvmlReturn_t read_clock(nvmlDevice_t device, unsigned int type, unsigned int* mhz,
                        const Reading& reading) {
  if (type > NVML_CLOCK_VIDEO) return NVML_ERROR_INVALID_ARGUMENT;
  if (type == NVML_CLOCK_VIDEO) {
    return with_device(device,
                       [](device::SimulationCore&, int) { return NVML_ERROR_NOT_SUPPORTED; });
  }
  const ClockDomain domain = type == NVML_CLOCK_MEM ? ClockDomain::kMemory : ClockDomain::kGraphics;
  return read_into(
      device, mhz,
      [&](const device::SimulatedGpuSpec& spec, const device::SimulatedGpuState& state) {
        return reading(spec, state, domain);
      });
}

int highest_clock(const device::SimulatedGpuSpec& spec, ClockDomain domain) {
  return domain == ClockDomain::kMemory ? spec.memory_clocks.back() : spec.gpu.max_clock.value;
}

/// Copies clocks, highest first. As in NVML, `count` is the size of the array on entry and the
/// number of clocks on return.
nvmlReturn_t copy_clocks(std::vector<int> clocks, unsigned int* count, unsigned int* mhz) {
  const auto number = static_cast<unsigned int>(clocks.size());
  const bool fits = *count >= number;
  *count = number;
  if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (mhz == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::reverse_copy(clocks.begin(), clocks.end(), mhz);
  return NVML_SUCCESS;
}

/// A module that is metered as a whole has no reading for the GPU alone.
nvmlReturn_t scope_code(const device::SimulatedGpuSpec& spec, unsigned int scope) {
  const unsigned int metered = spec.module_scope ? NVML_POWER_SCOPE_MODULE : NVML_POWER_SCOPE_GPU;
  return scope == metered ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/// Reads a value that exists only if the GPU itself is metered.
template <class T, class Reading>
nvmlReturn_t read_metered(nvmlDevice_t device, T* place, const Reading& reading) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (place == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const nvmlReturn_t scope = scope_code(core.spec(gpu), NVML_POWER_SCOPE_GPU);
    return scope == NVML_SUCCESS ? read_into(device, place, reading) : scope;
  });
}

void set_watts(nvmlFieldValue_t& field, double watts) {
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value.uiVal = static_cast<unsigned int>(milli(watts));
}

/// Fills one field from the state. Returns the result for this field.
nvmlReturn_t fill_field(const device::SimulatedGpuSpec& spec,
                        const device::SimulatedGpuState& state, nvmlFieldValue_t& field) {
  switch (field.fieldId) {
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
    case NVML_FI_DEV_ENERGY:
      if (!spec.has_counter) return NVML_ERROR_NOT_SUPPORTED;
      field.valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
      field.value.ullVal =
          static_cast<unsigned long long>(milli(device::visible_energy(spec, state)));
      return scope_code(spec, field.scopeId);
    case NVML_FI_DEV_POWER_AVERAGE:
      set_watts(field, device::visible_average_power(spec, state));
      return scope_code(spec, field.scopeId);
    case NVML_FI_DEV_POWER_INSTANT:
      set_watts(field, device::visible_instant_power(spec, state));
      return scope_code(spec, field.scopeId);
    case NVML_FI_DEV_POWER_MIN_LIMIT:
      set_watts(field, spec.lowest_limit_w);
      return NVML_SUCCESS;
    case NVML_FI_DEV_POWER_MAX_LIMIT:
      set_watts(field, spec.highest_limit_w);
      return NVML_SUCCESS;
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
      set_watts(field, spec.gpu.power_limit.value);
      return NVML_SUCCESS;
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
      set_watts(field, device::enforced_limit(spec, state));
      return NVML_SUCCESS;
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
      set_watts(field, state.limit_w);
      return NVML_SUCCESS;
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
}

constexpr std::uint64_t kSimulatedReasons =
    EventReasons::kIdle | EventReasons::kPowerCap | EventReasons::kHardwareSlowdown |
    EventReasons::kSoftwareThermal | EventReasons::kHardwareThermal | EventReasons::kPowerBrake;

int fan_percent(const device::SimulatedGpuSpec& spec, const device::SimulatedGpuState& state) {
  const double share = (state.temperature_c - spec.ambient_c) / (spec.slowdown_c - spec.ambient_c);
  return static_cast<int>(std::clamp(30 + 70 * share, 30.0, 100.0));
}

}  // namespace
}  // namespace harpe

using harpe::constant_into;
using harpe::read_into;
using harpe::with_device;
using harpe::device::SimulatedGpuSpec;
using harpe::device::SimulatedGpuState;
using harpe::device::SimulationCore;

// NOLINTBEGIN(readability-identifier-naming)

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int* mhz) {
  return harpe::read_clock(device, type, mhz, harpe::device::visible_clock);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int* mhz) {
  return harpe::read_clock(device, type, mhz, [](const auto& spec, const auto&, auto domain) {
    return harpe::highest_clock(spec, domain);
  });
}
nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned int type,
                                                unsigned int* mhz) {
  return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int type, unsigned int id,
                                unsigned int* mhz) {
  constexpr unsigned int kCurrent = 0, kCustomerBoostMost = 3;
  if (id == kCurrent) return nvmlDeviceGetClockInfo(device, type, mhz);
  if (id == kCustomerBoostMost) return nvmlDeviceGetMaxClockInfo(device, type, mhz);
  return with_device(device, [&](SimulationCore&, int) -> nvmlReturn_t {
    return id < kCustomerBoostMost ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
  });
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int* count,
                                                unsigned int* mhz) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (const auto state = core.read(gpu); !state.ok()) return harpe::code_of(state.error());
    return harpe::copy_clocks(core.spec(gpu).memory_clocks, count, mhz);
  });
}
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz,
                                                  unsigned int* count, unsigned int* mhz) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (const auto state = core.read(gpu); !state.ok()) return harpe::code_of(state.error());
    const auto& memory = core.spec(gpu).memory_clocks;
    if (std::find(memory.begin(), memory.end(), static_cast<int>(memory_mhz)) == memory.end()) {
      return NVML_ERROR_NOT_FOUND;
    }
    return harpe::copy_clocks(
        harpe::device::supported_clocks(core.spec(gpu), harpe::ClockDomain::kGraphics), count, mhz);
  });
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned int* state) {
  return constant_into(device, state, [](const auto&) { return 0; });
}
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, unsigned int* state) {
  return nvmlDeviceGetPerformanceState(device, state);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* reasons) {
  return read_into(device, reasons, [](const auto&, const auto& state) { return state.reasons; });
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long* reasons) {
  return constant_into(device, reasons, [](const auto&) { return harpe::kSimulatedReasons; });
}
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                         unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* mw) {
  return harpe::read_metered(device, mw, [](const auto& spec, const auto& state) {
    return harpe::milli(spec.power_usage_is_average
                            ? harpe::device::visible_average_power(spec, state)
                            : harpe::device::visible_instant_power(spec, state));
  });
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* mj) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (mj == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!core.spec(gpu).has_counter) return NVML_ERROR_NOT_SUPPORTED;
    return harpe::read_metered(device, mj, [](const auto& spec, const auto& state) {
      return harpe::milli(harpe::device::visible_energy(spec, state));
    });
  });
}
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, unsigned int* mode) {
  return constant_into(device, mode, [](const auto&) { return 1; });
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* mw) {
  return read_into(device, mw,
                   [](const auto&, const auto& state) { return harpe::milli(state.limit_w); });
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* mw) {
  return constant_into(device, mw, [](const SimulatedGpuSpec& spec) {
    return harpe::milli(spec.gpu.power_limit.value);
  });
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                          unsigned int* lowest_mw,
                                                          unsigned int* highest_mw) {
  if (lowest_mw != nullptr && highest_mw == nullptr) lowest_mw = nullptr;
  return constant_into(device, lowest_mw, [&](const SimulatedGpuSpec& spec) {
    *highest_mw = static_cast<unsigned int>(harpe::milli(spec.highest_limit_w));
    return harpe::milli(spec.lowest_limit_w);
  });
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* mw) {
  return read_into(device, mw, [](const auto& spec, const auto& state) {
    return harpe::milli(harpe::device::enforced_limit(spec, state));
  });
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (count <= 0 || values == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const harpe::Result<SimulatedGpuState> state = core.read(gpu);
    if (!state.ok()) return harpe::code_of(state.error());
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; ++i) {
      values[i].timestamp = now.tv_sec * 1'000'000LL + now.tv_nsec / 1000;
      values[i].latencyUsec = 0;
      values[i].nvmlReturn = harpe::fill_field(core.spec(gpu), *state, values[i]);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
                                      unsigned int* celsius) {
  if (sensor != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return read_into(device, celsius, [](const auto&, const auto& state) {
    return std::max(0.0, std::floor(state.temperature_c));
  });
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t* temperature) {
  if (temperature == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != NVML_TEMPERATURE_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (temperature->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return read_into(device, &temperature->temperature,
                   [](const auto&, const auto& state) { return std::floor(state.temperature_c); });
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int type,
                                               unsigned int* celsius) {
  constexpr unsigned int kShutdown = 0, kSlowdown = 1, kGpuMost = 3, kTypes = 8;
  if (type >= kTypes) return NVML_ERROR_INVALID_ARGUMENT;
  if (type != kShutdown && type != kSlowdown && type != kGpuMost) {
    return with_device(device, [](SimulationCore&, int) { return NVML_ERROR_NOT_SUPPORTED; });
  }
  return constant_into(device, celsius, [&](const SimulatedGpuSpec& spec) {
    if (type == kGpuMost) return spec.slowdown_c;
    return type == kSlowdown ? spec.hardware_slowdown_c : spec.hardware_slowdown_c + 3;
  });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  if (utilization == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return read_into(
      device, &utilization->gpu, [&](const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
        const double share = harpe::device::visible_utilisation(state);
        utilization->memory =
            static_cast<unsigned int>(std::lround(100 * share * spec.gpu.memory_bound));
        return std::lround(100 * share);
      });
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* percent) {
  return nvmlDeviceGetFanSpeed_v2(device, 0, percent);
}
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan,
                                      unsigned int* percent) {
  return with_device(device, [&](SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (percent == nullptr || fan > 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (!core.spec(gpu).fan) return NVML_ERROR_NOT_SUPPORTED;
    return read_into(device, percent, harpe::fan_percent);
  });
}
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int* fans) {
  return constant_into(device, fans, [](const SimulatedGpuSpec& spec) { return spec.fan ? 1 : 0; });
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int* mode) {
  return read_into(device, mode, [](const auto&, const auto& state) { return state.persistence; });
}

// NOLINTEND(readability-identifier-naming)
