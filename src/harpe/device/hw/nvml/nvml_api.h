#pragma once
/// \file
/// The part of NVIDIA's management library (NVML) that Harpe uses, declared from the API reference
/// so that a build needs no header of NVIDIA. Every function is looked up at run time; its pointer
/// is null if it is missing.

#include <cstdint>

namespace harpe::device {

using NvmlDevice = struct NvmlDeviceHandle*;

/// nvmlReturn_t. Values from the API reference; drivers may return others.
enum NvmlReturn : int {
  kNvmlSuccess = 0,
  kNvmlUninitialized = 1,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNoPermission = 4,
  kNvmlNotFound = 6,
  kNvmlDriverNotLoaded = 9,
  kNvmlTimeout = 10,
  kNvmlLibraryNotFound = 12,
  kNvmlFunctionNotFound = 13,
  kNvmlGpuIsLost = 15,
  kNvmlResetRequired = 16,
  kNvmlLibraryMismatch = 18,
  kNvmlInUse = 19,
  kNvmlFrequencyNotSupported = 24,
  kNvmlArgumentVersionMismatch = 25,
  kNvmlDeprecated = 26,
  kNvmlNotReady = 27,
};

/// nvmlPciInfo_t of both nvmlDeviceGetPciInfo_v2 and _v3. They only differ in the position of the
/// address text, which is not used.
struct NvmlPciInfo {
  char text[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char rest[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct NvmlUtilization {
  unsigned gpu, memory;  ///< percent
};

/// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v2 and later.
struct NvmlProcessInfo {
  unsigned process;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlProcessInfo) == 24);

/// nvmlTemperature_v1_t.
struct NvmlTemperature {
  static constexpr unsigned kVersion = sizeof(unsigned) * 3 | 1U << 24;
  unsigned version = kVersion;
  unsigned sensor = 0;  ///< 0 for the GPU's die
  int temperature = 0;  ///< degrees Celsius
};

/// nvmlMemory_t, bytes; `used` includes memory reserved by the driver.
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
static_assert(sizeof(NvmlMemory) == 24);

/// nvmlFieldValue_t.
struct NvmlFieldValue {
  enum Type : unsigned { kDouble, kUnsigned, kUnsignedLong, kUnsignedLongLong, kSignedLongLong };
  unsigned field = 0;
  unsigned scope = 0;
  std::int64_t timestamp = 0;
  std::int64_t latency = 0;
  unsigned type = kDouble;
  int result = 0;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_signed_long_long;
  } value = {0};
};
static_assert(sizeof(NvmlFieldValue) == 40);

/// Fields of nvmlDeviceGetFieldValues and their scopes.
inline constexpr unsigned kNvmlFieldPowerAverage = 185;  ///< mW
inline constexpr unsigned kNvmlFieldPowerInstant = 186;  ///< mW
inline constexpr unsigned kNvmlFieldEnergy = 191;        ///< mJ; has scopes
inline constexpr unsigned kNvmlScopeGpu = 0, kNvmlScopeModule = 1;

inline constexpr unsigned kNvmlClockGraphics = 0, kNvmlClockSm = 1, kNvmlClockMemory = 2;
inline constexpr unsigned kNvmlArchitectureAmpere = 7;

struct NvmlApi {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device_by_index)(unsigned, NvmlDevice*) = nullptr;

  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*pci_info)(NvmlDevice, NvmlPciInfo*) = nullptr;
  int (*mig_mode)(NvmlDevice, unsigned* current, unsigned* pending) = nullptr;
  int (*cores)(NvmlDevice, unsigned*) = nullptr;
  int (*minor_number)(NvmlDevice, unsigned*) = nullptr;  ///< N of /dev/nvidiaN
  int (*architecture)(NvmlDevice, unsigned*) = nullptr;

  int (*total_energy)(NvmlDevice, unsigned long long* mj) = nullptr;
  int (*power_usage)(NvmlDevice, unsigned* mw) = nullptr;
  int (*field_values)(NvmlDevice, int count, NvmlFieldValue*) = nullptr;

  int (*clock)(NvmlDevice, unsigned domain, unsigned* mhz) = nullptr;
  int (*highest_clock)(NvmlDevice, unsigned domain, unsigned* mhz) = nullptr;
  int (*memory_clocks)(NvmlDevice, unsigned* count, unsigned* mhz) = nullptr;
  int (*graphics_clocks)(NvmlDevice, unsigned memory_mhz, unsigned* count, unsigned* mhz) = nullptr;

  int (*power_limit)(NvmlDevice, unsigned* mw) = nullptr;
  int (*enforced_power_limit)(NvmlDevice, unsigned* mw) = nullptr;
  int (*power_limit_range)(NvmlDevice, unsigned* lowest, unsigned* highest) = nullptr;
  int (*default_power_limit)(NvmlDevice, unsigned* mw) = nullptr;

  int (*temperature_v)(NvmlDevice, NvmlTemperature*) = nullptr;
  int (*temperature)(NvmlDevice, unsigned sensor, unsigned* degrees) = nullptr;
  int (*utilisation)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*event_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*persistence_mode)(NvmlDevice, unsigned*) = nullptr;
  int (*processes)(NvmlDevice, unsigned* count, NvmlProcessInfo*) = nullptr;

  int (*lock_graphics_clocks)(NvmlDevice, unsigned lowest, unsigned highest) = nullptr;
  int (*lock_memory_clocks)(NvmlDevice, unsigned lowest, unsigned highest) = nullptr;
  int (*reset_graphics_clocks)(NvmlDevice) = nullptr;
  int (*reset_memory_clocks)(NvmlDevice) = nullptr;
  int (*set_power_limit)(NvmlDevice, unsigned mw) = nullptr;
  int (*set_persistence_mode)(NvmlDevice, unsigned) = nullptr;
};

}  // namespace harpe::device
