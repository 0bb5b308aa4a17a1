#pragma once
/// \file
/// One interface to AMD's management libraries: AMD SMI (libamd_smi.so) or its predecessor ROCm SMI
/// (librocm_smi64.so). Declared from their documentation and loaded at run time.
///
/// AMD SMI's structures differ between its versions 24, 25 and 26, so only functions with plain
/// numbers are used. All other values are read from sysfs (amd_sysfs.h), whose format is stable.
/// Calls are serialised, because the libraries are not thread-safe before ROCm 7.2.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// Thread-safe. GPUs are numbered from 0 in the library's order.
class AmdLibrary {
 public:
  /// Loads the first library that exists and starts. If none does, fails with the error of a
  /// library that cannot start, else with `kNotFound`. An empty name is skipped.
  static Result<std::shared_ptr<AmdLibrary>> load(const std::string& amd_smi,
                                                  const std::string& rocm_smi);
  virtual ~AmdLibrary() = default;

  virtual const char* name() const = 0;  ///< "AMD SMI"
  virtual int gpus() const = 0;
  virtual Result<std::string> pci(int gpu) = 0;  ///< "0000:c1:00.0"
  virtual std::string model(int gpu) = 0;        ///< model name; empty if unknown
  /// Returns the energy since the driver was loaded.
  virtual Result<Joules> energy(int gpu) = 0;
  virtual Status set_power_limit(int gpu, std::uint64_t microwatts) = 0;
  /// Limits the graphics clock to at most `megahertz`.
  virtual Status set_highest_clock(int gpu, std::uint64_t megahertz) = 0;
  virtual Status reset_clock(int gpu) = 0;
};

/// The remedy in every error for lack of permission.
inline constexpr const char* kAmdRemedy =
    "use the agent (harpe agent), or run as root: only root may write the settings, "
    "which are files of sysfs";

}  // namespace harpe::device
