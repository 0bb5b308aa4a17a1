#pragma once
/// \file
/// AMD GPUs: readings from the kernel driver's sysfs, energy and settings through AMD SMI or ROCm
/// SMI.
///
/// Written after AMD's and the kernel's documentation and tested on trees and libraries made for
/// the tests: no AMD GPU was at hand.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/hw/devices.h"

namespace harpe::device {

struct RocmDevices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< `identity().index` is the library's
  BackendState state;
};

/// Opens the GPUs of the first library that is there. Takes half a second of `clock` when there are
/// any: energy counters were wrong before ROCm 6.3, so each is compared with the power of the GPU
/// meanwhile, and not used where they disagree tenfold.
RocmDevices open_rocm(const std::string& amd_smi, const std::string& rocm_smi,
                      const std::filesystem::path& drm_root, Clock& clock);

}  // namespace harpe::device
