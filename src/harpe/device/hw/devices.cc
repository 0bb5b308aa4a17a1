#include "harpe/device/hw/devices.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "harpe/device/hw/nvml/nvml.h"
#include "harpe/device/hw/rapl/rapl.h"
#include "harpe/device/hw/rocm/rocm.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe {
namespace fs = std::filesystem;
namespace {

/// Mount point of the host's powercap tree in the containers of Zeus's users.
constexpr const char* kContainerPowercapRoot = "/zeus_sys/class/powercap";

bool take_variable(const char* name, auto& target) {
  const char* value = std::getenv(name);
  if (value != nullptr) target = value;
  return value != nullptr;
}

void take(std::vector<std::unique_ptr<Gpu>>& all, std::vector<std::unique_ptr<Gpu>> more) {
  std::ranges::move(more, std::back_inserter(all));
}

/// Sorts the GPUs of all backends by PCI address and removes duplicates.
void put_in_order(std::vector<std::unique_ptr<Gpu>>& gpus) {
  const auto place = [](const std::unique_ptr<Gpu>& gpu) {
    const GpuIdentity& identity = gpu->identity();
    return std::tuple{identity.pci.empty(), identity.pci, identity.backend, identity.index};
  };
  std::ranges::sort(gpus, {}, place);
  std::set<std::string> seen;
  std::erase_if(gpus, [&seen](const std::unique_ptr<Gpu>& gpu) {
    const std::string& uuid = gpu->identity().uuid;
    return !uuid.empty() && !seen.insert(uuid).second;
  });
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i]->set_index(static_cast<int>(i));
}

Status add_simulation(const fs::path& file, Devices& devices) {
  std::shared_ptr<Simulation> simulation = HARPE_TRY(Simulation::open(file));
  for (int i = 0; i < simulation->gpus(); ++i) devices.gpus.push_back(simulation->gpu(i));
  devices.cpus = simulation->cpus();
  devices.backends.push_back(
      {.name = "sim",
       .available = true,
       .detail = "simulated GPUs of " + file.string() +
                 " instead of real ones: their values are simulated, not measured"});
  return ok_status();
}

void add_real_gpus(const DeviceOptions& options, Devices& devices) {
  if (!options.nvml_library.empty()) {
    device::NvmlDevices nvml = device::open_nvml(options.nvml_library);
    take(devices.gpus, std::move(nvml.gpus));
    devices.backends.push_back(std::move(nvml.state));
  }
  if (!options.rocm_library.empty() || !options.rocm_smi_library.empty()) {
    device::RocmDevices rocm = device::open_rocm(options.rocm_library, options.rocm_smi_library,
                                                 options.drm_root, system_clock());
    take(devices.gpus, std::move(rocm.gpus));
    devices.backends.push_back(std::move(rocm.state));
  }
  put_in_order(devices.gpus);
}

}  // namespace

DeviceOptions DeviceOptions::of_environment() {
  DeviceOptions options;
  take_variable("HARPE_SIMULATION", options.simulation);
  take_variable("HARPE_NVML_LIBRARY", options.nvml_library);
  std::error_code ignored;
  if (!take_variable("HARPE_POWERCAP_ROOT", options.powercap_root) &&
      fs::is_directory(kContainerPowercapRoot, ignored)) {
    options.powercap_root = kContainerPowercapRoot;
  }
  return options;
}

Result<Devices> open_devices(const DeviceOptions& options) {
  Devices devices;
  if (options.simulation.empty()) {
    add_real_gpus(options, devices);
  } else if (Status status = add_simulation(options.simulation, devices); !status.ok()) {
    return std::move(status).error();
  }
  if (devices.cpus.empty() && !options.powercap_root.empty()) {
    device::RaplDevices rapl = device::open_rapl(options.powercap_root, system_clock());
    devices.cpus = std::move(rapl.cpus);
    devices.backends.push_back(std::move(rapl.state));
  }
  return devices;
}

}  // namespace harpe
