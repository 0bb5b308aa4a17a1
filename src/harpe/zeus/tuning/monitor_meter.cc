#include "harpe/zeus/tuning/monitor_meter.h"

#include <cmath>

namespace harpe {
namespace {

constexpr const char* kWindow = "harpe tuning";
constexpr Seconds kSettlingLook{0.005};

}  // namespace

Status MonitorMeter::begin(Instant at) {
  return monitor_.begin(kWindow, true, at);
}

void MonitorMeter::settle(Instant at) {
  while (!settled(at) && clock_.now() < at + kLongestSettling) {
    clock_.sleep_until(clock_.now() + kSettlingLook);
  }
}

Result<MeteredWindow> MonitorMeter::end(Instant at) {
  const WindowEnergy used = HARPE_TRY(monitor_.end(kWindow, at));
  MeteredWindow window;
  bool has_gpu = false;
  for (const DeviceEnergy& device : used.devices) {
    const bool is_gpu = device.kind == DeviceEnergy::Kind::kGpu;
    if (!is_gpu && !with_node_) continue;
    if (is_gpu && device.error) return *device.error;
    if (is_gpu && device.energy.source == EnergySource::kNone) {
      return Error::of(ErrorCode::kNotSupported, device.label() + " gives no energy");
    }
    has_gpu = has_gpu || is_gpu;
    window.energy += device.energy.energy;
    window.error = {std::hypot(window.error.value, device.energy.error.value)};
  }
  if (!has_gpu) return Error::of(ErrorCode::kNotFound, "there is no GPU");
  return window;
}

void MonitorMeter::cancel() {
  (void)monitor_.cancel(kWindow).ok();
}

}  // namespace harpe
