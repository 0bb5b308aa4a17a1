// Memory, and the processes that use it.
#include <cerrno>
#include <csignal>
#include <vector>

#include "library.h"

namespace harpe {
namespace {

constexpr unsigned long long kReserved = device::kSimulatedReservedBytes;
constexpr unsigned long long kPerProcess = device::kSimulatedProcessBytes;
constexpr unsigned int kNoInstance = 0xffffffff;

std::vector<unsigned int> users(const device::SimulatedGpuState& state) {
  std::vector<unsigned int> pids;
  for (const int pid : state.process) {
    if (pid > 0 && (kill(pid, 0) == 0 || errno == EPERM)) {
      pids.push_back(static_cast<unsigned int>(pid));
    }
  }
  return pids;
}

unsigned long long used_memory(const device::SimulatedGpuState& state) {
  return users(state).size() * kPerProcess;
}

void fill(nvmlProcessInfo_v1_t& info, unsigned int pid) {
  info = {.pid = pid, .usedGpuMemory = kPerProcess};
}
void fill(nvmlProcessInfo_v2_t& info, unsigned int pid) {
  info = {.pid = pid,
          .usedGpuMemory = kPerProcess,
          .gpuInstanceId = kNoInstance,
          .computeInstanceId = kNoInstance};
}
void fill(nvmlProcessDetail_v1_t& info, unsigned int pid) {
  info = {.pid = pid,
          .usedGpuMemory = kPerProcess,
          .gpuInstanceId = kNoInstance,
          .computeInstanceId = kNoInstance,
          .usedGpuCcProtectedMemory = 0};
}

/// As in NVML, `count` is the size of the array on entry and the number of processes on return.
template <class Info>
nvmlReturn_t list(nvmlDevice_t device, bool compute, unsigned int* count, Info* infos) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (count == nullptr || (infos == nullptr && *count > 0)) return NVML_ERROR_INVALID_ARGUMENT;
    const Result<device::SimulatedGpuState> state = core.read(gpu);
    if (!state.ok()) return code_of(state.error());
    const std::vector<unsigned int> pids = compute ? users(*state) : std::vector<unsigned int>();
    const auto number = static_cast<unsigned int>(pids.size());
    const bool fits = *count >= number;
    *count = number;
    if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; ++i) fill(infos[i], pids[i]);
    return NVML_SUCCESS;
  });
}

template <class Fill>
nvmlReturn_t memory_info(nvmlDevice_t device, const Fill& fill) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) -> nvmlReturn_t {
    const Result<device::SimulatedGpuState> state = core.read(gpu);
    if (!state.ok()) return code_of(state.error());
    fill(core.spec(gpu).memory_bytes, used_memory(*state));
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace harpe

// NOLINTBEGIN(readability-identifier-naming)

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return harpe::memory_info(device, [&](unsigned long long total, unsigned long long used) {
    used += harpe::kReserved;  // this version of the function includes the reserved memory
    *memory = {.total = total, .free = total - used, .used = used};
  });
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != NVML_MEMORY_V2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return harpe::memory_info(device, [&](unsigned long long total, unsigned long long used) {
    *memory = {.version = NVML_MEMORY_V2,
               .total = total,
               .reserved = harpe::kReserved,
               .free = total - used - harpe::kReserved,
               .used = used};
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return harpe::list(device, true, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return harpe::list(device, true, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return harpe::list(device, true, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                   nvmlProcessInfo_v1_t* infos) {
  return harpe::list(device, false, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return harpe::list(device, false, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return harpe::list(device, false, count, infos);
}
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_v1_t* list) {
  constexpr unsigned int kCompute = 0, kMps = 2;
  if (list == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (list->version != NVML_PROCESS_DETAIL_LIST_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (list->mode > kMps) return NVML_ERROR_INVALID_ARGUMENT;
  return harpe::list(device, list->mode == kCompute, &list->numProcArrayEntries, list->procArray);
}

// NOLINTEND(readability-identifier-naming)
