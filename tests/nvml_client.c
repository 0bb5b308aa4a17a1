/* A client of NVML in plain C, run on simulated GPUs. Checks layouts and return codes, and that no
 * error of a caller crashes the library. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harpe_sim.h"
#include "nvml_api.h"

#define HARPE_NOT_SUPPORTED(name) nvmlReturn_t name(void);
#include "not_supported.inc"
#undef HARPE_NOT_SUPPORTED

static int failures = 0;

#define CHECK_EQUAL(got, want)                                                                 \
  do {                                                                                         \
    const long long got_ = (long long)(got), want_ = (long long)(want);                        \
    if (got_ != want_) {                                                                       \
      fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_); \
      ++failures;                                                                              \
    }                                                                                          \
  } while (0)
#define CHECK(condition) CHECK_EQUAL(!!(condition), 1)

/* As documented; the versions of versioned structures include their sizes. */
static void check_layouts(void) {
  CHECK_EQUAL(sizeof(nvmlPciInfo_t), 68);
  CHECK_EQUAL(offsetof(nvmlPciInfo_t, domain), 16);
  CHECK_EQUAL(offsetof(nvmlPciInfo_t, pciDeviceId), 28);
  CHECK_EQUAL(offsetof(nvmlPciInfo_t, busId), 36);
  CHECK_EQUAL(sizeof(nvmlPciInfo_v2_t), 52);
  CHECK_EQUAL(sizeof(nvmlPciInfoExt_v1_t), NVML_PCI_INFO_EXT_V1 & 0xffffff);
  CHECK_EQUAL(offsetof(nvmlPciInfoExt_v1_t, busId), 32);
  CHECK_EQUAL(sizeof(nvmlMemory_t), 24);
  CHECK_EQUAL(offsetof(nvmlMemory_t, used), 16);
  CHECK_EQUAL(sizeof(nvmlMemory_v2_t), NVML_MEMORY_V2 & 0xffffff);
  CHECK_EQUAL(offsetof(nvmlMemory_v2_t, total), 8);
  CHECK_EQUAL(offsetof(nvmlMemory_v2_t, free), 24);
  CHECK_EQUAL(sizeof(nvmlUtilization_t), 8);
  CHECK_EQUAL(sizeof(nvmlProcessInfo_v1_t), 16);
  CHECK_EQUAL(sizeof(nvmlProcessInfo_v2_t), 24);
  CHECK_EQUAL(offsetof(nvmlProcessInfo_v2_t, gpuInstanceId), 16);
  CHECK_EQUAL(sizeof(nvmlProcessDetail_v1_t), 32);
  CHECK_EQUAL(sizeof(nvmlProcessDetailList_v1_t), NVML_PROCESS_DETAIL_LIST_V1 & 0xffffff);
  CHECK_EQUAL(offsetof(nvmlProcessDetailList_v1_t, procArray), 16);
  CHECK_EQUAL(sizeof(nvmlFieldValue_t), 40);
  CHECK_EQUAL(offsetof(nvmlFieldValue_t, timestamp), 8);
  CHECK_EQUAL(offsetof(nvmlFieldValue_t, valueType), 24);
  CHECK_EQUAL(offsetof(nvmlFieldValue_t, nvmlReturn), 28);
  CHECK_EQUAL(offsetof(nvmlFieldValue_t, value), 32);
  CHECK_EQUAL(sizeof(nvmlPowerValue_v2_t), NVML_POWER_VALUE_V2 & 0xffffff);
  CHECK_EQUAL(sizeof(nvmlTemperature_v1_t), NVML_TEMPERATURE_V1 & 0xffffff);
  CHECK_EQUAL(sizeof(harpe_sim_span), 16);
  CHECK_EQUAL(sizeof(harpe_sim_truth_t), 40);
}

static char folder[] = "/tmp/harpe-nvml-XXXXXX";

static void write_simulation(const char* name, const char* text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "w");
  if (file == NULL) exit(1);
  fprintf(file, "state_file = \"%s/%s.state\"\n%s", folder, name, text);
  fclose(file);
  setenv("HARPE_SIMULATION", path, 1);
}

static void remove_folder(void) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0) ++failures;
}

static nvmlDevice_t device(unsigned int index) {
  nvmlDevice_t handle = NULL;
  CHECK_EQUAL(nvmlDeviceGetHandleByIndex_v2(index, &handle), NVML_SUCCESS);
  return handle;
}

static void check_before_init(void) {
  unsigned int number = 0;
  char text[8];
  CHECK_EQUAL(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  CHECK_EQUAL(nvmlDeviceGetCount_v2(&number), NVML_ERROR_UNINITIALIZED);
  CHECK_EQUAL(nvmlDeviceGetPowerUsage(NULL, &number), NVML_ERROR_UNINITIALIZED);
  CHECK_EQUAL(nvmlSystemGetDriverVersion(text, sizeof text), NVML_ERROR_UNINITIALIZED);
  CHECK_EQUAL(nvmlDeviceGetEccMode(), NVML_ERROR_UNINITIALIZED);
  unsetenv("HARPE_SIMULATION");
  CHECK_EQUAL(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
  setenv("HARPE_SIMULATION", "/nowhere/simulation.toml", 1);
  CHECK_EQUAL(nvmlInit_v2(), NVML_ERROR_UNKNOWN);
  write_simulation("wrong.toml", "[[gpu]]\nmodel = \"b52\"\n");
  CHECK_EQUAL(nvmlInit_v2(), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(harpe_sim_set_load(0, 1), NVML_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(harpe_sim_error(), "unknown GPU model 'b52'") != NULL);
  CHECK_EQUAL(nvmlInitWithFlags(0x80), NVML_ERROR_INVALID_ARGUMENT);
}

static void check_system(void) {
  char text[80];
  int version = 0;
  unsigned int count = 0;
  CHECK_EQUAL(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
  CHECK(strstr(text, "harpe-sim") != NULL);
  CHECK_EQUAL(nvmlSystemGetDriverVersion(text, 4), NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK_EQUAL(nvmlSystemGetDriverVersion(NULL, 80), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlSystemGetNVMLVersion(text, sizeof text), NVML_SUCCESS);
  CHECK_EQUAL(nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
  CHECK_EQUAL(version, 12090);
  CHECK_EQUAL(nvmlSystemGetProcessName((unsigned int)getpid(), text, sizeof text), NVML_SUCCESS);
  CHECK(strstr(text, "nvml_client") != NULL);
  CHECK_EQUAL(nvmlSystemGetProcessName(0x7fffffff, text, sizeof text), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(nvmlDeviceGetCount(&count), NVML_SUCCESS);
  CHECK_EQUAL(count, 6);
  CHECK_EQUAL(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(strcmp(nvmlErrorString(NVML_ERROR_GPU_IS_LOST), "GPU is lost"), 0);
  CHECK_EQUAL(strcmp(nvmlErrorString(12345), "Unknown Error"), 0);
}

static void check_identity(void) {
  nvmlDevice_t first = device(0), found = NULL;
  char uuid[80], text[96];
  unsigned int number = 9;
  int major = 0, minor = 0;
  nvmlPciInfo_t pci;
  nvmlPciInfo_v2_t old;
  nvmlPciInfoExt_v1_t ext = {.version = NVML_PCI_INFO_EXT_V1};
  CHECK_EQUAL(nvmlDeviceGetHandleByIndex_v2(6, &found), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetHandleByIndex_v2(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetName(first, text, sizeof text), NVML_SUCCESS);
  CHECK_EQUAL(strcmp(text, "NVIDIA A100-SXM4-80GB"), 0);
  CHECK_EQUAL(nvmlDeviceGetUUID(first, uuid, 10), NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK_EQUAL(nvmlDeviceGetUUID(first, NULL, 80), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetUUID(first, uuid, sizeof uuid), NVML_SUCCESS);
  CHECK_EQUAL(strlen(uuid), 40);
  CHECK_EQUAL(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
  CHECK(found == first);
  uuid[5] ^= 1;
  CHECK_EQUAL(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(nvmlDeviceGetHandleByUUID(NULL, &found), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetPciInfo_v3(device(1), &pci), NVML_SUCCESS);
  CHECK_EQUAL(strcmp(pci.busId, "00000000:04:00.0"), 0);
  CHECK_EQUAL(strcmp(pci.busIdLegacy, "0000:04:00.0"), 0);
  CHECK_EQUAL(pci.pciDeviceId & 0xffff, 0x10de);
  CHECK_EQUAL(nvmlDeviceGetPciInfo_v2(device(1), &old), NVML_SUCCESS);
  CHECK_EQUAL(strcmp(old.busId, "0000:04:00.0"), 0);
  CHECK_EQUAL(nvmlDeviceGetPciInfoExt(device(1), &ext), NVML_SUCCESS);
  CHECK_EQUAL(ext.bus, 4);
  ext.version = 7;
  CHECK_EQUAL(nvmlDeviceGetPciInfoExt(device(1), &ext), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  CHECK_EQUAL(nvmlDeviceGetHandleByPciBusId_v2("00000000:04:00.0", &found), NVML_SUCCESS);
  CHECK(found == device(1));
  CHECK_EQUAL(nvmlDeviceGetHandleByPciBusId("0000:04:00.0", &found), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetHandleByPciBusId_v2("04:00.0", &found), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetHandleByPciBusId_v2("0000:55:00.0", &found), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(nvmlDeviceGetHandleByPciBusId_v2("rubbish", &found), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetIndex(device(3), &number), NVML_SUCCESS);
  CHECK_EQUAL(number, 3);
  CHECK_EQUAL(nvmlDeviceGetArchitecture(device(3), &number), NVML_SUCCESS);
  CHECK_EQUAL(number, 9);
  CHECK_EQUAL(nvmlDeviceGetCudaComputeCapability(device(1), &major, &minor), NVML_SUCCESS);
  CHECK_EQUAL(10 * major + minor, 86);
  CHECK_EQUAL(nvmlDeviceGetCudaComputeCapability(first, &major, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void check_wrong_handles(void) {
  nvmlDevice_t wrong[] = {NULL, (nvmlDevice_t)(size_t)0x1234, (nvmlDevice_t)(void*)folder};
  unsigned int number = 0;
  unsigned long long big = 0;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    CHECK_EQUAL(nvmlDeviceGetPowerUsage(wrong[i], &number), NVML_ERROR_INVALID_ARGUMENT);
    CHECK_EQUAL(nvmlDeviceGetTotalEnergyConsumption(wrong[i], &big), NVML_ERROR_INVALID_ARGUMENT);
    CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit(wrong[i], 1), NVML_ERROR_INVALID_ARGUMENT);
    CHECK_EQUAL(nvmlDeviceResetGpuLockedClocks(wrong[i]), NVML_ERROR_INVALID_ARGUMENT);
  }
}

static void check_null_places(void) {
  nvmlDevice_t gpu = device(0);
  unsigned int one = 1;
  CHECK_EQUAL(nvmlDeviceGetClockInfo(gpu, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetPowerUsage(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetTotalEnergyConsumption(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetPowerManagementLimitConstraints(gpu, &one, NULL),
              NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetPowerManagementLimitConstraints(gpu, NULL, &one),
              NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetFieldValues(gpu, 1, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetTemperature(gpu, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetTemperatureV(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetUtilizationRates(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetMemoryInfo(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetMemoryInfo_v2(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetSupportedMemoryClocks(gpu, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(gpu, NULL, NULL),
              NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &one, NULL),
              NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetRunningProcessDetailList(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetPciInfo_v3(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetMigMode(gpu, &one, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit_v2(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetCurrentClocksEventReasons(gpu, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(harpe_sim_truth(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(harpe_sim_gpus(NULL), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(harpe_sim_run_profile(0, NULL, 0, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void check_clocks(void) {
  nvmlDevice_t gpu = device(1); /* A40 */
  unsigned int mhz = 0, count = 0, clocks[256];
  CHECK_EQUAL(nvmlDeviceGetSupportedMemoryClocks(gpu, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK_EQUAL(count, 3);
  CHECK_EQUAL(nvmlDeviceGetSupportedMemoryClocks(gpu, &count, clocks), NVML_SUCCESS);
  CHECK_EQUAL(clocks[0], 7251);
  count = 256;
  CHECK_EQUAL(nvmlDeviceGetSupportedGraphicsClocks(gpu, 7251, &count, clocks), NVML_SUCCESS);
  CHECK_EQUAL(count, (1740 - 210) / 15 + 1);
  CHECK_EQUAL(clocks[0], 1740);
  CHECK_EQUAL(clocks[count - 1], 210);
  CHECK_EQUAL(nvmlDeviceGetSupportedGraphicsClocks(gpu, 999, &count, clocks), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(nvmlDeviceGetMaxClockInfo(gpu, NVML_CLOCK_SM, &mhz), NVML_SUCCESS);
  CHECK_EQUAL(mhz, 1740);
  CHECK_EQUAL(nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_MEM, &mhz), NVML_SUCCESS);
  CHECK_EQUAL(mhz, 7251);
  CHECK_EQUAL(nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_VIDEO, &mhz), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceGetClockInfo(gpu, 4, &mhz), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceSetGpuLockedClocks(gpu, 1000, 900), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceSetGpuLockedClocks(gpu, 901, 901), NVML_SUCCESS);
  CHECK_EQUAL(harpe_sim_set_load(1, 0.5), NVML_SUCCESS);
  CHECK_EQUAL(harpe_sim_run(1, 0.3, 0.5, NULL), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_GRAPHICS, &mhz), NVML_SUCCESS);
  CHECK_EQUAL(mhz, 900);
  CHECK_EQUAL(nvmlDeviceSetGpuLockedClocks(gpu, 210, NVML_CLOCK_LIMIT_ID_UNLIMITED), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceResetGpuLockedClocks(gpu), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceSetMemoryLockedClocks(gpu, 5001, 5001), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceResetMemoryLockedClocks(gpu), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceSetMemoryLockedClocks(device(3), 2619, 2619), NVML_ERROR_NOT_SUPPORTED);
}

static void check_power(void) {
  nvmlDevice_t gpu = device(1);
  unsigned int mw = 0, lowest = 0, highest = 0;
  unsigned long long before = 0, after = 0;
  nvmlPowerValue_v2_t value = {NVML_POWER_VALUE_V2, NVML_POWER_SCOPE_GPU, 220000};
  harpe_sim_span span;
  harpe_sim_truth_t truth;
  CHECK_EQUAL(nvmlDeviceGetPowerManagementLimitConstraints(gpu, &lowest, &highest), NVML_SUCCESS);
  CHECK_EQUAL(lowest, 100000);
  CHECK_EQUAL(highest, 300000);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit(gpu, 99999), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit(gpu, 300001), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit(gpu, 250500), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetPowerManagementLimit(gpu, &mw), NVML_SUCCESS);
  CHECK_EQUAL(mw, 250500);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit_v2(gpu, &value), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetEnforcedPowerLimit(gpu, &mw), NVML_SUCCESS);
  CHECK_EQUAL(mw, 220000);
  value.version = 1;
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit_v2(gpu, &value),
              NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  CHECK_EQUAL(nvmlDeviceGetPowerManagementDefaultLimit(gpu, &mw), NVML_SUCCESS);
  CHECK_EQUAL(mw, 300000);
  CHECK_EQUAL(nvmlDeviceGetTotalEnergyConsumption(gpu, &before), NVML_SUCCESS);
  CHECK_EQUAL(harpe_sim_run(1, 0.5, 0.1, &span), NVML_SUCCESS);
  CHECK(span.end - span.begin >= 0.5 && span.end - span.begin < 3);
  CHECK_EQUAL(nvmlDeviceGetTotalEnergyConsumption(gpu, &after), NVML_SUCCESS);
  CHECK(after - before > 40000 && after - before < 600000);
  CHECK_EQUAL(harpe_sim_truth(1, &truth), NVML_SUCCESS);
  CHECK(truth.time >= span.end && truth.power > 20 && truth.power < 300);
  CHECK_EQUAL(harpe_sim_truth(17, &truth), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(harpe_sim_set_load(1, 2), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(harpe_sim_run(1, -1, 0.1, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void check_fields(void) {
  const unsigned int ids[] = {83, 185, 186, 187, 188, 189, 190, 191, 192, 74, 9999};
  enum { kFields = sizeof ids / sizeof *ids };
  nvmlFieldValue_t fields[kFields];
  memset(fields, 0, sizeof fields);
  for (int i = 0; i < kFields; ++i) fields[i].fieldId = ids[i];
  CHECK_EQUAL(nvmlDeviceGetFieldValues(device(0), kFields, fields), NVML_SUCCESS);
  for (int i = 0; i < kFields; ++i) {
    CHECK_EQUAL(fields[i].nvmlReturn,
                ids[i] <= 192 && ids[i] >= 83 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
  }
  CHECK_EQUAL(fields[0].valueType, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
  CHECK_EQUAL(fields[0].value.ullVal, fields[7].value.ullVal);
  CHECK_EQUAL(fields[3].value.uiVal, 100000);
  CHECK(fields[1].timestamp > 1500000000000000LL);
  CHECK_EQUAL(nvmlDeviceGetFieldValues(device(0), 0, fields), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetFieldValues(device(0), -1, fields), NVML_ERROR_INVALID_ARGUMENT);
}

static void check_quirks(void) {
  unsigned int number = 0, pending = 0;
  unsigned long long big = 0;
  nvmlDevice_t mig = device(2), superchip = device(4), lost = device(5), found = NULL;
  nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_POWER_INSTANT};
  CHECK_EQUAL(nvmlDeviceGetMigMode(mig, &number, &pending), NVML_SUCCESS);
  CHECK_EQUAL(number, 1);
  CHECK_EQUAL(nvmlDeviceSetPowerManagementLimit(mig, 200000), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceSetGpuLockedClocks(mig, 900, 900), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(mig, 0, &found), NVML_ERROR_NOT_FOUND);
  CHECK_EQUAL(nvmlDeviceGetPowerUsage(superchip, &number), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceGetTotalEnergyConsumption(superchip, &big), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceGetFieldValues(superchip, 1, &field), NVML_SUCCESS);
  CHECK_EQUAL(field.nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  field.scopeId = NVML_POWER_SCOPE_MODULE;
  CHECK_EQUAL(nvmlDeviceGetFieldValues(superchip, 1, &field), NVML_SUCCESS);
  CHECK_EQUAL(field.nvmlReturn, NVML_SUCCESS);
  CHECK(field.value.uiVal > 100000);
  CHECK_EQUAL(nvmlDeviceGetPowerUsage(lost, &number), NVML_ERROR_GPU_IS_LOST);
  CHECK_EQUAL(nvmlDeviceSetPersistenceMode(lost, 1), NVML_ERROR_GPU_IS_LOST);
  CHECK_EQUAL(nvmlDeviceSetPersistenceMode(device(3), 0), NVML_ERROR_NO_PERMISSION);
  CHECK_EQUAL(nvmlDeviceSetPersistenceMode(device(0), 0), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetPersistenceMode(device(0), &number), NVML_SUCCESS);
  CHECK_EQUAL(number, 0);
  CHECK_EQUAL(nvmlDeviceGetFanSpeed(device(0), &number), NVML_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(nvmlDeviceGetFanSpeed(device(1), &number), NVML_SUCCESS);
  CHECK(number >= 30 && number <= 100);
  CHECK_EQUAL(nvmlDeviceGetTemperature(device(1), 1, &number), NVML_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(nvmlDeviceGetTemperatureThreshold(device(1), 1, &number), NVML_SUCCESS);
  CHECK_EQUAL(number, 94);
  CHECK_EQUAL(nvmlDeviceGetCurrentClocksThrottleReasons(device(0), &big), NVML_SUCCESS);
  CHECK_EQUAL(big, 1);
}

static void check_processes(void) {
  nvmlDevice_t gpu = device(0);
  unsigned int count = 0;
  nvmlProcessInfo_v2_t infos[4];
  nvmlProcessInfo_v1_t old[4];
  nvmlMemory_t memory;
  nvmlMemory_v2_t memory2 = {.version = NVML_MEMORY_V2};
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, NULL), NVML_SUCCESS);
  CHECK_EQUAL(harpe_sim_run(0, 0.01, 0, NULL), NVML_SUCCESS);
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, NULL),
              NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK_EQUAL(count, 1);
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, infos), NVML_SUCCESS);
  CHECK_EQUAL(infos[0].pid, getpid());
  CHECK_EQUAL(nvmlDeviceGetComputeRunningProcesses(gpu, &count, old), NVML_SUCCESS);
  CHECK_EQUAL(old[0].pid, getpid());
  CHECK_EQUAL(nvmlDeviceGetGraphicsRunningProcesses_v3(gpu, &count, infos), NVML_SUCCESS);
  CHECK_EQUAL(count, 0);
  CHECK_EQUAL(nvmlDeviceGetMemoryInfo(gpu, &memory), NVML_SUCCESS);
  CHECK_EQUAL(memory.total, 80LL << 30);
  CHECK_EQUAL(memory.free + memory.used, memory.total);
  CHECK_EQUAL(nvmlDeviceGetMemoryInfo_v2(gpu, &memory2), NVML_SUCCESS);
  CHECK_EQUAL(memory2.free + memory2.used + memory2.reserved, memory2.total);
  memory2.version = 3;
  CHECK_EQUAL(nvmlDeviceGetMemoryInfo_v2(gpu, &memory2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void check_not_supported(int want) {
#define HARPE_NOT_SUPPORTED(name) CHECK_EQUAL(name(), want);
#include "not_supported.inc"
#undef HARPE_NOT_SUPPORTED
}

static void* hammer(void* number) {
  const unsigned int seed = *(const unsigned int*)number;
  unsigned int mw = 0;
  unsigned long long before = 0, mj = 0;
  for (unsigned int i = 0; i < 300; ++i) {
    nvmlDevice_t gpu = NULL;
    if (nvmlInit_v2() != NVML_SUCCESS) return number;
    if (nvmlDeviceGetHandleByIndex_v2(0, &gpu) != NVML_SUCCESS) return number;
    if (nvmlDeviceGetPowerUsage(gpu, &mw) != NVML_SUCCESS || mw > 700000) return number;
    if (nvmlDeviceGetTotalEnergyConsumption(gpu, &mj) != NVML_SUCCESS || mj < before) return number;
    before = mj;
    if (harpe_sim_set_load(0, (double)((i + seed) % 5) / 4) != NVML_SUCCESS) return number;
    if (nvmlShutdown() != NVML_SUCCESS) return number;
  }
  return NULL;
}

static void check_threads(void) {
  enum { kThreads = 4 };
  pthread_t threads[kThreads];
  unsigned int numbers[kThreads];
  for (unsigned int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    CHECK_EQUAL(pthread_create(&threads[i], NULL, hammer, &numbers[i]), 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  check_layouts();
  check_before_init();
  remove_folder();
  if (mkdir(folder, 0700) != 0) return 1;
  write_simulation("good.toml",
                   "[[gpu]]\nmodel = \"a100-sxm\"\n"
                   "[[gpu]]\nmodel = \"a40\"\nfan = true\nswitch_ms = 5\nslow_target_share = 0\n"
                   "[[gpu]]\nmodel = \"a100-pcie\"\nmig = true\n"
                   "[[gpu]]\nmodel = \"h100-sxm\"\nmemory_lock = false\n"
                   "[[gpu]]\nmodel = \"gh200\"\n"
                   "[[gpu]]\nmodel = \"a40\"\n"
                   "[[fault]]\nkind = \"gpu_lost\"\ngpu = 5\n"
                   "[[fault]]\nkind = \"no_permission\"\ngpu = 3\n");
  CHECK_EQUAL(nvmlInit_v2(), NVML_SUCCESS);
  CHECK_EQUAL(nvmlInitWithFlags(1), NVML_SUCCESS);
  CHECK_EQUAL(nvmlShutdown(), NVML_SUCCESS); /* one user is left */
  check_system();
  check_identity();
  check_wrong_handles();
  check_quirks();
  check_null_places();
  check_processes();
  check_clocks();
  check_power();
  check_fields();
  check_not_supported(NVML_ERROR_NOT_SUPPORTED);
  check_threads();
  CHECK_EQUAL(nvmlShutdown(), NVML_SUCCESS);
  check_not_supported(NVML_ERROR_UNINITIALIZED);
  remove_folder();
  if (failures == 0) puts("all right");
  return failures == 0 ? 0 : 1;
}
