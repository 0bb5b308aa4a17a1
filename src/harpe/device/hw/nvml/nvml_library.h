#pragma once
/// \file
/// NVML, loaded and initialised; shut down and unloaded when the last GPU that uses it goes.

#include <memory>
#include <string>

#include "harpe/base/result.h"
#include "harpe/device/hw/nvml/nvml_api.h"

namespace harpe {

/// NVML itself is thread-safe, and counts how often it was initialised, so that other users of it
/// in this process are not disturbed.
class NvmlLibrary {
 public:
  /// Fails with `kNotFound` when there is no such library (no NVIDIA driver here), and with what
  /// NVML says when it cannot be initialised.
  static Result<std::shared_ptr<const NvmlLibrary>> load(const std::string& library);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const NvmlApi& api() const { return api_; }
  std::string driver_version() const;  ///< empty when it cannot be read

  /// What a response of NVML other than success means: a message of what was attempted, NVML's
  /// words and what would help.
  Error error(int result, const std::string& attempted) const;

 private:
  explicit NvmlLibrary(void* handle);

  void* handle_;
  bool initialised_ = false;
  NvmlApi api_;
};

}  // namespace harpe
