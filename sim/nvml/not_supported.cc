// The functions of NVML that the simulation does not support. They ignore their arguments, which
// the C calling conventions of Linux allow.
#include "library.h"

// NOLINTBEGIN(readability-identifier-naming)
#define HARPE_NOT_SUPPORTED(name)                                                 \
  extern "C" NVML_EXPORT nvmlReturn_t name(void);                                 \
  nvmlReturn_t name(void) {                                                       \
    return harpe::with_library(                                                   \
        [](harpe::device::SimulationCore&) { return NVML_ERROR_NOT_SUPPORTED; }); \
  }
#include "not_supported.inc"
#undef HARPE_NOT_SUPPORTED
// NOLINTEND(readability-identifier-naming)
