#pragma once
/// \file
/// Finding the NVIDIA GPUs of this machine through NVML.

#include <memory>
#include <string>
#include <vector>

#include "harpe/device/hw/devices.h"

namespace harpe::device {

struct NvmlDevices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< in NVML's order; `identity().index` is NVML's
  BackendState state;
};

/// Loads `library` and opens its GPUs. No library, no driver, GPUs that are lost or not allowed are
/// said in `state`; GPUs that can be used are there all the same.
NvmlDevices open_nvml(const std::string& library);

}  // namespace harpe::device
