#pragma once
/// \file
/// AMD's management libraries behind one face: AMD SMI (libamd_smi.so), or its predecessor ROCm SMI
/// (librocm_smi64.so). Declared anew after their documentation and loaded at run time.
///
/// AMD SMI's structures change between its versions 24, 25 and 26, so only functions that take
/// plain numbers are used; everything else is read from sysfs (amd_sysfs.h), whose format the
/// kernel keeps. Calls are serialised: before ROCm 7.2 the libraries are not thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// Thread-safe. GPUs count from 0 in the library's order.
class AmdLibrary {
 public:
  /// The first library that is there. Fails with `kNotFound` when none is, and with what a library
  /// says when it cannot start. An empty name is not looked for.
  static Result<std::shared_ptr<AmdLibrary>> load(const std::string& amd_smi,
                                                  const std::string& rocm_smi);
  virtual ~AmdLibrary() = default;

  virtual const char* name() const = 0;  ///< "AMD SMI"
  virtual int gpus() const = 0;
  virtual Result<std::string> pci(int gpu) = 0;  ///< "0000:c1:00.0"
  virtual std::string model(int gpu) = 0;        ///< empty when not known
  /// Energy since the driver was loaded.
  virtual Result<Joules> energy(int gpu) = 0;
  virtual Status set_power_limit(int gpu, std::uint64_t microwatts) = 0;
  /// The graphics clock stays at or below this.
  virtual Status set_highest_clock(int gpu, std::uint64_t megahertz) = 0;
  virtual Status reset_clock(int gpu) = 0;
};

/// What every refusal for want of permission says.
inline constexpr const char* kAmdRemedy =
    "go through the agent (harpe agent), or run as root: the settings are files of sysfs that only "
    "root may write";

}  // namespace harpe::device
