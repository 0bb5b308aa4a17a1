#pragma once
/// \file
/// Finding the devices of this machine. Libraries of vendors are loaded when they are there; that
/// one is missing, or may not be used, is a state to tell the user, not a failure.
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
  std::string nvml_library = "libnvidia-ml.so.1";  ///< empty: do not look for it
  std::string rocm_library = "libamd_smi.so";      ///< AMD SMI; empty: do not look for it
  std::string rocm_smi_library = "librocm_smi64.so";
  std::filesystem::path powercap_root = "/sys/class/powercap";  ///< empty: no CPUs
  std::filesystem::path drm_root = "/sys/class/drm";
  /// A simulation (TOML, docs/simulated-gpus.md) in place of all real GPUs; CPUs stay real unless
  /// it has some. Empty: none.
  std::filesystem::path simulation;

  /// The defaults, with HARPE_SIMULATION, HARPE_NVML_LIBRARY and HARPE_POWERCAP_ROOT taken from the
  /// environment. In containers /zeus_sys/class/powercap is looked at too.
  static DeviceOptions of_environment();
};

/// What became of one backend.
struct BackendState {
  std::string name;  ///< "nvml", "rocm", "rapl", "sim"
  bool available = false;
  std::string detail;  ///< driver version; or why not, and what would help
};

struct Devices {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< in PCI order; `identity().index` is the position
  std::vector<std::unique_ptr<Cpu>> cpus;
  std::vector<BackendState> backends;
};

/// Opens all devices. Fails only on a simulation file that is wrong.
Result<Devices> open_devices(const DeviceOptions& options);

}  // namespace harpe
