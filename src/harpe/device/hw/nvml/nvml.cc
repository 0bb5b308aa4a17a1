#include "harpe/device/hw/nvml/nvml.h"

#include <utility>

#include "harpe/device/hw/nvml/nvml_gpu.h"

namespace harpe {

NvmlDevices open_nvml(const std::string& library) {
  NvmlDevices devices{.gpus = {}, .state = {.name = "nvml", .available = false, .detail = {}}};
  Result<std::shared_ptr<const NvmlLibrary>> loaded = NvmlLibrary::load(library);
  if (!loaded.ok()) {
    const bool missing = loaded.error().code == ErrorCode::kNotFound;
    devices.state.detail = (missing ? "no NVIDIA driver: " : "") + loaded.error().text();
    return devices;
  }
  const std::shared_ptr<const NvmlLibrary>& nvml = *loaded;
  unsigned count = 0;
  if (const int result = nvml->api().device_count(&count); result != kNvmlSuccess) {
    devices.state.detail = nvml->error(result, "the GPUs cannot be counted").text();
    return devices;
  }
  devices.state.available = true;
  const std::string version = nvml->driver_version();
  devices.state.detail = version.empty() ? "driver of unknown version" : "driver " + version;
  for (unsigned i = 0; i < count; ++i) {
    auto gpu = NvmlGpu::open(nvml, static_cast<int>(i));
    if (gpu.ok()) {
      devices.gpus.push_back(*std::move(gpu));
    } else {
      devices.state.detail += "; " + gpu.error().text();
    }
  }
  return devices;
}

}  // namespace harpe
