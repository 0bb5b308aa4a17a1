// A stand-in for NVML that returns values set by a test, for cases that no simulated driver covers:
// error codes, missing functions (SCRIPTED_OLD), counts of calls. It is built as a separate module
// and loaded like the real library; it declares NVML itself, without Harpe's header.

#include <cstring>
#include <string>

#include "harpe/device/hw/script_testing.h"

namespace {

struct Field {
  unsigned id, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
};

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

// ---- NVML

#ifdef SCRIPTED_OLD
int nvmlInit() {
  return respond("nvmlInit");
}
#else
int nvmlInit_v2() {
  return respond("nvmlInit_v2");
}
#endif
int nvmlShutdown() {
  return respond("nvmlShutdown");
}
const char* nvmlErrorString(int result) {
  return result == 4 ? "Insufficient Permissions" : "Some Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "550.54.15", size);
  return respond("nvmlSystemGetDriverVersion");
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = small("count", 1);
  return respond("nvmlDeviceGetCount_v2");
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int handle;
  *device = &handle;
  const int all = respond("nvmlDeviceGetHandleByIndex_v2");
  return all != 0 ? all
                  : respond(("nvmlDeviceGetHandleByIndex_v2 " + std::to_string(index)).c_str());
}
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::strncpy(text, value("ga100", 0) != 0 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA A40", size);
  return respond("nvmlDeviceGetName");
}
int nvmlDeviceGetUUID(void*, char* text, unsigned size) {
  std::strncpy(text, "GPU-7a5e0001-0000-0000-0000-000000000000", size);
  return respond("nvmlDeviceGetUUID");
}
#ifdef SCRIPTED_OLD
int nvmlDeviceGetPciInfo_v2(void*, char* info) {
#else
int nvmlDeviceGetPciInfo_v3(void*, char* info) {
#endif
  const unsigned address[] = {1, 0xc1, 0x1f};
  std::memset(info, 0, 68);
  std::memcpy(info + 16, address, sizeof address);
  return respond("nvmlDeviceGetPciInfo");
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* mj) {
  *mj = value("energy", 123456);
  return respond("nvmlDeviceGetTotalEnergyConsumption");
}
int nvmlDeviceGetPowerUsage(void*, unsigned* mw) {
  *mw = small("power usage", 250500);
  return respond("nvmlDeviceGetPowerUsage");
}
int nvmlDeviceGetClockInfo(void*, unsigned domain, unsigned* mhz) {
  *mhz = domain == 2 ? 405 : 1400 + domain;
  return respond("nvmlDeviceGetClockInfo");
}
int nvmlDeviceGetSupportedMemoryClocks(void*, unsigned* count, unsigned* mhz) {
  mhz[0] = 7251;
  mhz[1] = 405;
  *count = 2;
  return respond("nvmlDeviceGetSupportedMemoryClocks");
}
int nvmlDeviceGetSupportedGraphicsClocks(void*, unsigned memory, unsigned* count, unsigned* mhz) {
  *count = 0;
  for (unsigned clock = memory == 7251 ? 1740 : 420; clock >= 210; clock -= 15) {
    mhz[(*count)++] = clock;
  }
  return respond("nvmlDeviceGetSupportedGraphicsClocks");
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* mw) {
  *mw = small("limit", 300000);
  return respond("nvmlDeviceGetPowerManagementLimit");
}
int nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* lowest, unsigned* highest) {
  *lowest = 100000;
  *highest = 300000;
  return respond("nvmlDeviceGetPowerManagementLimitConstraints");
}
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* mw) {
  *mw = 290000;
  return respond("nvmlDeviceGetPowerManagementDefaultLimit");
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* degrees) {
  *degrees = sensor == 0 ? 41 : 999;
  return respond("nvmlDeviceGetTemperature");
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* gpu_and_memory) {
  gpu_and_memory[0] = 75;
  gpu_and_memory[1] = 10;
  return respond("nvmlDeviceGetUtilizationRates");
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 48ULL << 30U;
  total_free_used[1] = 36ULL << 30U;
  total_free_used[2] = 12ULL << 30U;
  return respond("nvmlDeviceGetMemoryInfo");
}
#ifdef SCRIPTED_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* bits) {
#endif
  *bits = 0x44;
  return respond("nvmlDeviceGetCurrentClocksEventReasons");
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* into) {
  constexpr unsigned kProcesses[2] = {4321, 17};
  constexpr std::size_t kSize = 24;  // of nvmlProcessInfo_t; the id comes first
  for (std::size_t i = 0; i < 2; ++i) {
    std::memcpy(static_cast<char*>(into) + i * kSize, &kProcesses[i], sizeof kProcesses[i]);
  }
  *count = 2;
  return respond("nvmlDeviceGetComputeRunningProcesses");
}
int nvmlDeviceGetPersistenceMode(void*, unsigned* enabled) {
  *enabled = small("persistence", 1);
  return respond("nvmlDeviceGetPersistenceMode");
}
int nvmlDeviceSetPersistenceMode(void*, unsigned enabled) {
  remember("persistence", enabled);
  return respond("nvmlDeviceSetPersistenceMode");
}
int nvmlDeviceSetPowerManagementLimit(void*, unsigned mw) {
  remember("limit", mw);
  return respond("nvmlDeviceSetPowerManagementLimit");
}

#ifndef SCRIPTED_OLD
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = *pending = small("mig", 0);
  return respond("nvmlDeviceGetMigMode");
}
int nvmlDeviceGetNumGpuCores(void*, unsigned* cores) {
  *cores = 10752;
  return respond("nvmlDeviceGetNumGpuCores");
}
int nvmlDeviceGetMinorNumber(void*, unsigned* number) {
  *number = 7;
  return respond("nvmlDeviceGetMinorNumber");
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned, unsigned* mhz) {
  *mhz = 1740;
  return respond("nvmlDeviceGetMaxClockInfo");
}
int nvmlDeviceGetArchitecture(void*, unsigned* architecture) {
  *architecture = small("architecture", 7);
  return respond("nvmlDeviceGetArchitecture");
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* mw) {
  *mw = small("enforced", 280000);
  return respond("nvmlDeviceGetEnforcedPowerLimit");
}
int nvmlDeviceGetTemperatureV(void*, int* version_sensor_temperature) {
  if (version_sensor_temperature[0] != 0x100000C) return 25;
  version_sensor_temperature[2] = -3;
  return respond("nvmlDeviceGetTemperatureV");
}
/// Returns the fields that a test sets as "field 186 0" (field, scope); others are not supported.
int nvmlDeviceGetFieldValues(void*, int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    Field& field = fields[i];
    const std::string name =
        "field " + std::to_string(field.id) + " " + std::to_string(field.scope);
    const std::uint64_t number = value(name, ~0ULL);
    field.result = number == ~0ULL ? 3 : 0;
    field.type = field.id == 191 ? 3 : 1;
    field.value.ull = 0;
    if (field.id == 191) {
      field.value.ull = number;
    } else {
      field.value.u = static_cast<unsigned>(number);
    }
  }
  return respond("nvmlDeviceGetFieldValues");
}
int nvmlDeviceSetGpuLockedClocks(void*, unsigned lowest, unsigned highest) {
  remember("locked", lowest * 100000ULL + highest);
  return respond("nvmlDeviceSetGpuLockedClocks");
}
int nvmlDeviceSetMemoryLockedClocks(void*, unsigned lowest, unsigned highest) {
  remember("memory locked", lowest * 100000ULL + highest);
  return respond("nvmlDeviceSetMemoryLockedClocks");
}
int nvmlDeviceResetGpuLockedClocks(void*) {
  return respond("nvmlDeviceResetGpuLockedClocks");
}
int nvmlDeviceResetMemoryLockedClocks(void*) {
  return respond("nvmlDeviceResetMemoryLockedClocks");
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
