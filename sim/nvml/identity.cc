// Functions for the list of GPUs and their constant properties.
#include <cstdio>
#include <string>

#include "library.h"

namespace harpe {
namespace {

constexpr unsigned int kAmpere = 7, kHopper = 9;
constexpr unsigned int kBrandNvidia = 14;
constexpr unsigned int kVendor = 0x10de;
constexpr unsigned int kBaseClass = 3, kSubClass = 2;  // a display controller for 3D

struct PciPlace {
  unsigned int domain = 0, bus = 0, device = 0, function = 0;
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

/// Parses "domain:bus:device.function" in hexadecimal; the domain is optional.
bool parse_place(const char* text, PciPlace& place) {
  int used = 0;
  if (std::sscanf(text, "%8x:%2x:%2x.%1x%n", &place.domain, &place.bus, &place.device,
                  &place.function, &used) == 4 &&
      text[used] == '\0') {
    return true;
  }
  place = {};
  used = 0;
  return std::sscanf(text, "%2x:%2x.%1x%n", &place.bus, &place.device, &place.function, &used) ==
             3 &&
         text[used] == '\0';
}

PciPlace place_of(const device::SimulatedGpuSpec& spec) {
  PciPlace place;
  parse_place(spec.pci.c_str(), place);
  return place;
}

template <class Info>
void fill_pci(const device::SimulatedGpuSpec& spec, Info& info) {
  const PciPlace place = place_of(spec);
  info.domain = place.domain;
  info.bus = place.bus;
  info.device = place.device;
  info.pciDeviceId = (spec.pci_device_id << 16) | kVendor;
  info.pciSubSystemId = 0;
}

template <std::size_t kSize>
void write_place(const device::SimulatedGpuSpec& spec, const char* format, char (&text)[kSize]) {
  const PciPlace place = place_of(spec);
  std::snprintf(text, kSize, format, place.domain & 0xffffu, place.bus & 0xffu,
                place.device & 0xffu, place.function & 0xfu);
}

/// Fills `info` unless the GPU is lost.
template <class Info, class Fill>
nvmlReturn_t fill_info(nvmlDevice_t device, Info* info, const Fill& fill) {
  return with_device(device, [&](device::SimulationCore& core, int gpu) -> nvmlReturn_t {
    if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (const auto state = core.read(gpu); !state.ok()) return code_of(state.error());
    return fill(core.spec(gpu), *info);
  });
}

/// Finds the first GPU for which `is_it(spec)` is true.
template <class IsIt>
nvmlReturn_t find(device::SimulationCore& core, nvmlDevice_t* device, const IsIt& is_it) {
  if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int gpu = 0; gpu < core.gpus(); ++gpu) {
    if (!is_it(core.spec(gpu))) continue;
    *device = NvmlLibrary::instance().handle(gpu);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

}  // namespace
}  // namespace harpe

using harpe::constant_into;
using harpe::with_device;
using harpe::with_library;
using harpe::device::SimulatedGpuSpec;
using harpe::device::SimulationCore;

// NOLINTBEGIN(readability-identifier-naming)

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  return with_library([&](SimulationCore& core) -> nvmlReturn_t {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *count = static_cast<unsigned int>(core.gpus());
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
  return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return with_library([&](SimulationCore& core) -> nvmlReturn_t {
    if (device == nullptr || index >= static_cast<unsigned int>(core.gpus())) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = harpe::NvmlLibrary::instance().handle(static_cast<int>(index));
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return with_library([&](SimulationCore& core) -> nvmlReturn_t {
    if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    return harpe::find(core, device,
                       [&](const SimulatedGpuSpec& spec) { return spec.uuid == uuid; });
  });
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  return with_library([&](SimulationCore& core) -> nvmlReturn_t {
    harpe::PciPlace wanted;
    if (id == nullptr || !harpe::parse_place(id, wanted)) return NVML_ERROR_INVALID_ARGUMENT;
    return harpe::find(core, device, [&](const SimulatedGpuSpec& spec) {
      return harpe::place_of(spec) == wanted;
    });
  });
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return harpe::fill_info(device, name, [&](const SimulatedGpuSpec& spec, char&) {
    return harpe::copy_text(spec.name, name, length);
  });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return harpe::fill_info(device, uuid, [&](const SimulatedGpuSpec& spec, char&) {
    return harpe::copy_text(spec.uuid, uuid, length);
  });
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  return with_device(device, [&](SimulationCore&, int gpu) -> nvmlReturn_t {
    if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *index = static_cast<unsigned int>(gpu);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  return nvmlDeviceGetIndex(device, minor);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return harpe::fill_info(device, pci, [](const SimulatedGpuSpec& spec, nvmlPciInfo_t& info) {
    info = {};
    harpe::fill_pci(spec, info);
    harpe::write_place(spec, "%04X:%02X:%02X.%X", info.busIdLegacy);
    harpe::write_place(spec, "%08X:%02X:%02X.%X", info.busId);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t* pci) {
  return harpe::fill_info(device, pci, [](const SimulatedGpuSpec& spec, nvmlPciInfo_v2_t& info) {
    info = {};
    harpe::fill_pci(spec, info);
    harpe::write_place(spec, "%04X:%02X:%02X.%X", info.busId);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t* pci) {
  return nvmlDeviceGetPciInfo_v2(device, pci);
}
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t* pci) {
  return harpe::fill_info(
      device, pci, [](const SimulatedGpuSpec& spec, nvmlPciInfoExt_v1_t& info) -> nvmlReturn_t {
        if (info.version != NVML_PCI_INFO_EXT_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        harpe::fill_pci(spec, info);
        info.baseClass = harpe::kBaseClass;
        info.subClass = harpe::kSubClass;
        harpe::write_place(spec, "%08X:%02X:%02X.%X", info.busId);
        return NVML_SUCCESS;
      });
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int* arch) {
  return constant_into(device, arch, [](const SimulatedGpuSpec& spec) {
    return spec.capability_major >= 9 ? harpe::kHopper : harpe::kAmpere;
  });
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int* brand) {
  return constant_into(device, brand, [](const auto&) { return harpe::kBrandNvidia; });
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return harpe::fill_info(device, major,
                          [&](const SimulatedGpuSpec& spec, int& place) -> nvmlReturn_t {
                            if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
                            place = spec.capability_major;
                            *minor = spec.capability_minor;
                            return NVML_SUCCESS;
                          });
}
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* cores) {
  return constant_into(device, cores, [](const SimulatedGpuSpec& spec) { return spec.cores; });
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int* mode) {
  return constant_into(device, mode, [](const auto&) { return 0; });
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, unsigned int* mode) {
  return constant_into(device, mode, [](const auto&) { return 0; });
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned int* active) {
  return constant_into(device, active, [](const auto&) { return 0; });
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  return harpe::fill_info(device, current,
                          [&](const SimulatedGpuSpec& spec, unsigned int& place) -> nvmlReturn_t {
                            if (pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
                            // Of the GPU models, those with compute capability x.6 do not support
                            // MIG.
                            if (spec.capability_minor == 6) return NVML_ERROR_NOT_SUPPORTED;
                            place = *pending = spec.mig ? 1 : 0;
                            return NVML_SUCCESS;
                          });
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  return constant_into(device, is_mig, [](const auto&) { return 0; });
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return constant_into(device, count,
                       [](const SimulatedGpuSpec& spec) { return spec.mig ? 7 : 0; });
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int /*index*/,
                                                 nvmlDevice_t* mig) {
  return with_device(device, [&](SimulationCore&, int) -> nvmlReturn_t {
    return mig == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
  });
}

// NOLINTEND(readability-identifier-naming)
