// Initialisation, shutdown, versions and error texts.
#include <array>
#include <string>
#include <utility>

#include "harpe/base/file.h"
#include "library.h"

using harpe::copy_text;
using harpe::with_library;

// NOLINTBEGIN(readability-identifier-naming)

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  constexpr unsigned int kNoGpus = 1, kNoAttach = 2;
  if ((flags & ~(kNoGpus | kNoAttach)) != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return harpe::guarded([] { return harpe::NvmlLibrary::instance().start(); });
}
nvmlReturn_t nvmlInit(void) {
  return nvmlInitWithFlags(0);
}
nvmlReturn_t nvmlInit_v2(void) {
  return nvmlInitWithFlags(0);
}
nvmlReturn_t nvmlShutdown(void) {
  return harpe::guarded([] { return harpe::NvmlLibrary::instance().stop(); });
}

const char* nvmlErrorString(nvmlReturn_t result) {
  static constexpr std::array<std::pair<nvmlReturn_t, const char*>, 31> kTexts{
      {{0, "Success"},
       {1, "Uninitialized"},
       {2, "Invalid Argument"},
       {3, "Not Supported"},
       {4, "Insufficient Permissions"},
       {5, "Already Initialized"},
       {6, "Not Found"},
       {7, "Insufficient Size"},
       {8, "Insufficient External Power"},
       {9, "Driver Not Loaded"},
       {10, "Timeout"},
       {11, "Interrupt Request Issue"},
       {12, "NVML Shared Library Not Found"},
       {13, "Function Not Found"},
       {14, "Corrupted infoROM"},
       {15, "GPU is lost"},
       {16, "GPU requires restart"},
       {17, "The operating system has blocked the request"},
       {18, "RM has detected an NVML/RM version mismatch"},
       {19, "In use by another client"},
       {20, "Insufficient Memory"},
       {21, "No data"},
       {22, "ECC is not supported with vGPU"},
       {23, "Insufficient resources"},
       {24, "Frequency not supported"},
       {25, "Argument version mismatch"},
       {26, "Deprecated"},
       {27, "Not ready"},
       {28, "GPU not found"},
       {29, "Invalid state"},
       {30, "Reset type not supported"}}};
  for (const auto& [code, text] : kTexts) {
    if (code == result) return text;
  }
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return with_library([&](harpe::device::SimulationCore&) {
    return copy_text("575.0.0-harpe-sim", version, length);
  });
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return with_library([&](harpe::device::SimulationCore&) {
    return copy_text("12.575.0-harpe-sim", version, length);
  });
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return with_library([&](harpe::device::SimulationCore&) -> nvmlReturn_t {
    if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *version = 12090;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  return with_library([&](harpe::device::SimulationCore&) -> nvmlReturn_t {
    if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
    const auto line = harpe::read_file("/proc/" + std::to_string(pid) + "/cmdline", 1 << 20);
    if (!line.ok()) return NVML_ERROR_NOT_FOUND;
    // As in NVML, names that are too long are cut.
    const std::string_view first = std::string_view(*line).substr(0, line->find('\0'));
    return copy_text(first.substr(0, length - 1), name, length);
  });
}

// NOLINTEND(readability-identifier-naming)
