#pragma once
/// \file
/// Discovery of the devices of this machine. Vendor libraries are loaded if they exist. A library
/// that is missing or not permitted is reported as the state of its backend, not as an error.
///
///   const auto devices = harpe::open_devices(harpe::DeviceOptions::of_environment());
///   for (const auto& gpu : devices->gpus) std::puts(gpu->identity().name.c_str());
///   for (const auto& backend : devices->backends) std::puts(backend.detail.c_str());

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/device/hw/device.h"

namespace harpe {

struct DeviceOptions {
  std::string nvml_library = "libnvidia-ml.so.1";  ///< empty to skip NVML
  std::string rocm_library = "libamd_smi.so";      ///< AMD SMI; empty to skip it
  std::string rocm_smi_library = "librocm_smi64.so";
  std::filesystem::path powercap_root = "/sys/class/powercap";  ///< empty to skip CPUs
  std::filesystem::path drm_root = "/sys/class/drm";
  /// A simulation (TOML, docs/simulated-gpus.md) that replaces all real GPUs, and the CPUs if it
  /// defines any. Empty if there is none.
  std::filesystem::path simulation;

  /// Returns the defaults, overridden by HARPE_SIMULATION, HARPE_NVML_LIBRARY and
  /// HARPE_POWERCAP_ROOT of the environment. Without HARPE_POWERCAP_ROOT, /zeus_sys/class/powercap
  /// is used if it exists, as in Zeus's containers.
  static DeviceOptions of_environment();
};

/// The state of one backend.
struct BackendState {
  std::string name;  ///< "nvml", "rocm", "rapl", "sim"
  bool available = false;
  std::string detail;  ///< driver version; if not available, the reason and a remedy
};

struct Devices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< in PCI order; `identity().index` is the position
  std::vector<std::unique_ptr<Cpu>> cpus;
  std::vector<BackendState> backends;
};

/// Opens all devices. Fails only if a simulation cannot be opened.
Result<Devices> open_devices(const DeviceOptions& options);

}  // namespace harpe
