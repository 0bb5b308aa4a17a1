#pragma once
/// \file
/// AMD GPUs: readings from the kernel driver's sysfs, energy and settings through AMD SMI or ROCm
/// SMI.
///
/// Written from AMD's and the kernel's documentation, and tested with simulated file trees and
/// libraries, not with an AMD GPU.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/hw/devices.h"

namespace harpe::device {

struct RocmDevices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< `identity().index` is the library's index
  BackendState state;
};

/// Opens the GPUs of the first library that exists. If there are GPUs, this takes half a second of
/// `clock`: energy counters were wrong before ROCm 6.3, so each is compared with the GPU's power
/// during that time, and is not used if they differ by a factor of ten.
RocmDevices open_rocm(const std::string& amd_smi, const std::string& rocm_smi,
                      const std::filesystem::path& drm_root, Clock& clock);

}  // namespace harpe::device
