// Sums over the devices of a window.
#include <algorithm>
#include <cmath>

#include "harpe/device/measure/energy_monitor.h"

namespace harpe {

std::string DeviceEnergy::label() const {
  const char* word = kind == Kind::kGpu ? "GPU " : kind == Kind::kCpu ? "CPU " : "DRAM ";
  return word + std::to_string(index);
}

EnergyEstimate WindowEnergy::total() const {
  EnergyEstimate sum;
  sum.time = time;
  double square = 0;
  const bool has_module =
      std::ranges::any_of(devices, [](const DeviceEnergy& device) { return device.whole_module; });
  for (const DeviceEnergy& device : devices) {
    if (device.energy.source == EnergySource::kNone) {
      if (device.error) sum.missing = time;
      continue;
    }
    if (has_module && device.kind != DeviceEnergy::Kind::kGpu) continue;
    sum.energy += device.energy.energy;
    sum.sensor_error += device.energy.sensor_error;  // sensors of one make are wrong together
    square += device.energy.error.value * device.energy.error.value;
    sum.unobserved = std::max(sum.unobserved, device.energy.unobserved);
    sum.missing = std::max(sum.missing, device.energy.missing);
    sum.restarts += device.energy.restarts;
    sum.source = std::max(sum.source, device.energy.source);
  }
  sum.error = {std::sqrt(square)};
  return sum;
}

Joules WindowEnergy::sum(DeviceEnergy::Kind kind) const {
  Joules result{0};
  for (const DeviceEnergy& device : devices) {
    if (device.kind == kind) result += device.energy.energy;
  }
  return result;
}

bool WindowEnergy::complete() const {
  return std::ranges::none_of(devices,
                              [](const DeviceEnergy& device) { return device.error.has_value(); });
}

EnergyEstimate total_of(const WindowEnergy& window) {
  EnergyEstimate total = window.total();
  const bool all_known = std::ranges::all_of(window.devices, [](const DeviceEnergy& device) {
    return device.energy.source == EnergySource::kNone || error_known(device.energy);
  });
  if (!all_known) total.error = {0};
  return total;
}

bool error_known(const EnergyEstimate& energy) {
  return energy.source != EnergySource::kNone && energy.error.value > 0 &&
         energy.missing.value <= 0;
}

}  // namespace harpe
