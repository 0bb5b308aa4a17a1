#pragma once
/// \file
/// Discovery of the NVIDIA GPUs of this machine through NVML.

#include <memory>
#include <string>
#include <vector>

#include "harpe/device/hw/devices.h"

namespace harpe::device {

struct NvmlDevices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< in NVML's order; `identity().index` is NVML's
  BackendState state;
};

/// Loads `library` and opens its usable GPUs. Reports a missing library or driver, and GPUs that
/// are lost or not permitted, in `state`.
NvmlDevices open_nvml(const std::string& library);

}  // namespace harpe::device
