#include "library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace harpe {

NvmlLibrary& NvmlLibrary::instance() {
  // Never destroyed: programs call the library while they exit.
  static auto* const kLibrary = new NvmlLibrary;
  return *kLibrary;
}

nvmlReturn_t NvmlLibrary::start() {
  const MutexLock lock(mutex_);
  if (users_ == 0) {
    Result<std::shared_ptr<device::SimulationCore>> opened = open_named_simulation();
    if (!opened.ok()) {
      std::fprintf(stderr, "simulated libnvidia-ml: %s\n", opened.error().text().c_str());
      return opened.error().code == ErrorCode::kUnavailable ? NVML_ERROR_DRIVER_NOT_LOADED
                                                            : code_of(opened.error());
    }
    core_ = *std::move(opened);
  }
  ++users_;
  return NVML_SUCCESS;
}

nvmlReturn_t NvmlLibrary::stop() {
  const MutexLock lock(mutex_);
  if (users_ == 0) return NVML_ERROR_UNINITIALIZED;
  if (--users_ == 0) core_.reset();
  return NVML_SUCCESS;
}

std::shared_ptr<device::SimulationCore> NvmlLibrary::core() {
  const MutexLock lock(mutex_);
  return core_;
}

int NvmlLibrary::index(nvmlDevice_t handle) const {
  for (int gpu = 0; gpu < device::kMaxSimulatedGpus; ++gpu) {
    if (handle == &devices_[gpu]) return gpu;
  }
  return -1;
}

Result<std::shared_ptr<device::SimulationCore>> open_named_simulation() {
  const char* file = std::getenv("HARPE_SIMULATION");
  if (file == nullptr || *file == '\0') {
    return Error::of(ErrorCode::kUnavailable,
                     "HARPE_SIMULATION names no simulation: set it to a TOML file such as "
                     "share/doc/harpe/simulations/a100x4.toml");
  }
  return device::open_simulation(file);
}

nvmlReturn_t code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kInfeasible:
      return NVML_ERROR_INVALID_ARGUMENT;
    case ErrorCode::kNoPermission:
      return NVML_ERROR_NO_PERMISSION;
    case ErrorCode::kNotSupported:
      return NVML_ERROR_NOT_SUPPORTED;
    case ErrorCode::kNotFound:
      return NVML_ERROR_NOT_FOUND;
    case ErrorCode::kUnavailable:
      return NVML_ERROR_GPU_IS_LOST;
    case ErrorCode::kIo:
    case ErrorCode::kRefused:
    case ErrorCode::kConflict:
    case ErrorCode::kInternal:
      break;
  }
  return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t copy_text(std::string_view text, char* place, unsigned int length) {
  if (place == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(place, text.data(), text.size());
  place[text.size()] = '\0';
  return NVML_SUCCESS;
}

}  // namespace harpe
