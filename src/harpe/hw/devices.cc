#include "harpe/hw/devices.h"

#include <cstdlib>

namespace harpe {
namespace {

void take_variable(const char* name, auto& target) {
  const char* value = std::getenv(name);
  if (value != nullptr) target = value;
}

}  // namespace

DeviceOptions DeviceOptions::of_environment() {
  DeviceOptions options;
  take_variable("HARPE_SIMULATION", options.simulation);
  take_variable("HARPE_NVML_LIBRARY", options.nvml_library);
  take_variable("HARPE_POWERCAP_ROOT", options.powercap_root);
  return options;
}

Result<Devices> open_devices(const DeviceOptions& options) {
  if (!options.simulation.empty()) {
    return Error::of(ErrorCode::kNotSupported, "simulated GPUs are not built yet");
  }
  return Devices{};
}

}  // namespace harpe
