#include "harpe/device/hw/nvml/nvml_library.h"

#include <dlfcn.h>

#include <array>
#include <initializer_list>
#include <utility>

namespace harpe {
namespace {

/// The first of the names that the library has: newest version first.
template <class Function>
void find(void* library, Function*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function != nullptr) return;
  }
}

NvmlApi find_nvml_functions(void* library) {
  NvmlApi api;
  const auto load = [library](auto*& function, std::initializer_list<const char*> names) {
    find(library, function, names);
  };
  load(api.init, {"nvmlInit_v2", "nvmlInit"});
  load(api.shutdown, {"nvmlShutdown"});
  load(api.error_string, {"nvmlErrorString"});
  load(api.driver_version, {"nvmlSystemGetDriverVersion"});
  load(api.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  load(api.device_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  load(api.name, {"nvmlDeviceGetName"});
  load(api.uuid, {"nvmlDeviceGetUUID"});
  load(api.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"});
  load(api.mig_mode, {"nvmlDeviceGetMigMode"});
  load(api.cores, {"nvmlDeviceGetNumGpuCores"});
  load(api.minor_number, {"nvmlDeviceGetMinorNumber"});
  load(api.architecture, {"nvmlDeviceGetArchitecture"});
  load(api.total_energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  load(api.power_usage, {"nvmlDeviceGetPowerUsage"});
  load(api.field_values, {"nvmlDeviceGetFieldValues"});
  load(api.clock, {"nvmlDeviceGetClockInfo"});
  load(api.highest_clock, {"nvmlDeviceGetMaxClockInfo"});
  load(api.memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
  load(api.graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
  load(api.power_limit, {"nvmlDeviceGetPowerManagementLimit"});
  load(api.enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  load(api.power_limit_range, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  load(api.default_power_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  load(api.temperature_v, {"nvmlDeviceGetTemperatureV"});
  load(api.temperature, {"nvmlDeviceGetTemperature"});
  load(api.utilisation, {"nvmlDeviceGetUtilizationRates"});
  load(api.memory, {"nvmlDeviceGetMemoryInfo"});
  load(api.event_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  load(api.persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  load(api.processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  load(api.lock_graphics_clocks, {"nvmlDeviceSetGpuLockedClocks"});
  load(api.lock_memory_clocks, {"nvmlDeviceSetMemoryLockedClocks"});
  load(api.reset_graphics_clocks, {"nvmlDeviceResetGpuLockedClocks"});
  load(api.reset_memory_clocks, {"nvmlDeviceResetMemoryLockedClocks"});
  load(api.set_power_limit, {"nvmlDeviceSetPowerManagementLimit"});
  load(api.set_persistence_mode, {"nvmlDeviceSetPersistenceMode"});
  return api;
}

ErrorCode code_of_nvml(int result) {
  switch (result) {
    case kNvmlInvalidArgument:
    case kNvmlFrequencyNotSupported:
      return ErrorCode::kInvalidInput;
    case kNvmlNotSupported:
    case kNvmlFunctionNotFound:
    case kNvmlArgumentVersionMismatch:
    case kNvmlDeprecated:
      return ErrorCode::kNotSupported;
    case kNvmlNoPermission:
      return ErrorCode::kNoPermission;
    case kNvmlNotFound:
      return ErrorCode::kNotFound;
    case kNvmlInUse:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kUnavailable;
  }
}

const char* remedy(int result) {
  switch (result) {
    case kNvmlNoPermission:
      return "go through the agent (harpe agent), or run as root (CAP_SYS_ADMIN)";
    case kNvmlDriverNotLoaded:
      return "load the kernel driver (modprobe nvidia); in a container, start it with GPUs";
    case kNvmlGpuIsLost:
      return "the GPU fell off the bus: look for Xid in the kernel log, restart the machine";
    case kNvmlResetRequired:
      return "reset the GPU (nvidia-smi --gpu-reset) once nothing uses it";
    case kNvmlLibraryMismatch:
      return "the driver was updated: restart the machine, or load the kernel driver again";
    case kNvmlNotReady:
    case kNvmlTimeout:
      return "try again";
    case kNvmlInUse:
      return "another program holds it";
    default:
      return "";
  }
}

}  // namespace

NvmlLibrary::NvmlLibrary(void* handle) : handle_(handle), api_(find_nvml_functions(handle)) {}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && api_.shutdown != nullptr) api_.shutdown();
  ::dlclose(handle_);
}

Result<std::shared_ptr<const NvmlLibrary>> NvmlLibrary::load(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return Error::of(ErrorCode::kNotFound, reason == nullptr ? library : reason);
  }
  std::shared_ptr<NvmlLibrary> nvml(new NvmlLibrary(handle));
  const NvmlApi& api = nvml->api_;
  if (api.init == nullptr || api.device_count == nullptr || api.device_by_index == nullptr) {
    return Error::of(ErrorCode::kNotSupported, library + " is not NVML, or too old (before 2013)");
  }
  if (const int result = api.init(); result != kNvmlSuccess) {
    return nvml->error(result, "NVML cannot start");
  }
  nvml->initialised_ = true;
  return std::shared_ptr<const NvmlLibrary>(std::move(nvml));
}

std::string NvmlLibrary::driver_version() const {
  std::array<char, 81> text{};
  if (api_.driver_version == nullptr || api_.driver_version(text.data(), 80) != kNvmlSuccess) {
    return {};
  }
  return text.data();
}

Error NvmlLibrary::error(int result, const std::string& attempted) const {
  const char* words = api_.error_string == nullptr ? nullptr : api_.error_string(result);
  std::string message = attempted + ": ";
  message += words == nullptr ? "NVML error " + std::to_string(result) : std::string(words);
  if (const std::string help = remedy(result); !help.empty()) message += "; " + help;
  return Error::of(code_of_nvml(result), std::move(message));
}

}  // namespace harpe
