#pragma once
/// \file
/// Shared first steps of all simulated NVML functions: they find the simulation and the GPU, and
/// catch all exceptions.

#include <memory>
#include <new>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/sim/simulation_core.h"
#include "nvml_api.h"

/// The target of a device handle.
struct nvmlDevice_st {};  // NOLINT(readability-identifier-naming)

namespace harpe {

/// The library between the first nvmlInit and the last nvmlShutdown. Thread-safe.
class NvmlLibrary {
 public:
  /// Returns the only instance: NVML's interface is global to the process.
  static NvmlLibrary& instance();

  nvmlReturn_t start();
  nvmlReturn_t stop();
  /// Returns null if the library is not initialised.
  std::shared_ptr<device::SimulationCore> core();

  nvmlDevice_t handle(int gpu) { return &devices_[gpu]; }
  /// Returns -1 if it is not a handle of this library.
  int index(nvmlDevice_t handle) const;

 private:
  Mutex mutex_;
  int users_ HARPE_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<device::SimulationCore> core_ HARPE_GUARDED_BY(mutex_);
  nvmlDevice_st devices_[device::kMaxSimulatedGpus];
};

/// Opens the simulation that HARPE_SIMULATION names. Prints an error on standard error.
Result<std::shared_ptr<device::SimulationCore>> open_named_simulation();

nvmlReturn_t code_of(const Error& error);
inline nvmlReturn_t code_of(const Status& status) {
  return status.ok() ? NVML_SUCCESS : code_of(status.error());
}

template <class Call>
nvmlReturn_t guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return NVML_ERROR_MEMORY;
  } catch (...) {
    return NVML_ERROR_UNKNOWN;
  }
}

/// Calls `call(core)` if the library is initialised.
template <class Call>
nvmlReturn_t with_library(const Call& call) noexcept {
  return guarded([&]() -> nvmlReturn_t {
    const std::shared_ptr<device::SimulationCore> core = NvmlLibrary::instance().core();
    return core ? call(*core) : NVML_ERROR_UNINITIALIZED;
  });
}

/// Calls `call(core, gpu)` if the handle is valid.
template <class Call>
nvmlReturn_t with_device(nvmlDevice_t device, const Call& call) noexcept {
  return with_library([&](device::SimulationCore& core) -> nvmlReturn_t {
    const int gpu = NvmlLibrary::instance().index(device);
    return gpu >= 0 && gpu < core.gpus() ? call(core, gpu) : NVML_ERROR_INVALID_ARGUMENT;
  });
}

/// Writes the result of `reading(spec, state)` for a GPU's current state to `place`.
template <class T, class Reading>
nvmlReturn_t read_into(nvmlDevice_t device, T* place, const Reading& reading) noexcept {
  return with_device(device, [&](device::SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (place == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const Result<device::SimulatedGpuState> state = core.read(gpu);
    if (!state.ok()) return code_of(state.error());
    *place = static_cast<T>(reading(core.spec(gpu), *state));
    return NVML_SUCCESS;
  });
}

/// Writes a constant of a GPU to `place`, unless the GPU is lost.
template <class T, class Constant>
nvmlReturn_t constant_into(nvmlDevice_t device, T* place, const Constant& constant) noexcept {
  return read_into(device, place,
                   [&](const device::SimulatedGpuSpec& spec, const device::SimulatedGpuState&) {
                     return constant(spec);
                   });
}

/// Copies a text with its terminator.
nvmlReturn_t copy_text(std::string_view text, char* place, unsigned int length);

}  // namespace harpe
