#pragma once
/// \file
/// Interfaces to the devices that use energy: the readings and controls of a GPU, and the energy
/// counters of a CPU package. Backends (`hw/nvml`, `hw/rocm`, `hw/rapl`, `hw/sim`) implement them
/// and are found at run time (devices.h).
///
///   const auto energy = gpu.total_energy();
///   const auto set = gpu.set_locked_clocks(harpe::ClockDomain::kGraphics, {1200_MHz, 1200_MHz});
///   if (!set.ok()) std::puts(set.error().text().c_str());
///
/// Each call enters the driver and may take milliseconds, at worst half a second. A device is not
/// thread-safe: one thread uses it at a time; different threads may use different devices. A call
/// fails with `kNotSupported` if the device lacks the feature, with `kNoPermission` and a remedy if
/// this process may not use it, and with `kUnavailable` if the device is lost.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// Identifiers of one GPU of a machine. The UUID and the PCI address are stable; the index may
/// change with the machine's configuration.
struct GpuIdentity {
  int index = 0;        ///< position in PCI order among the GPUs of all backends
  std::string uuid;     ///< unique, "GPU-7a5e..."; made of the PCI address if the driver has none
  std::string pci;      ///< "0000:65:00.0", lower case
  std::string name;     ///< "NVIDIA A40"
  std::string backend;  ///< "nvml", "rocm", "sim"
  bool is_mig = false;  ///< true if divided into MIG instances, which share one clock and power
  double speed = 0;     ///< cores x top clock, for CUDA's order "fastest first"; 0 if unknown
};

enum class ClockDomain : unsigned char { kGraphics, kMemory };

/// A clock lock: the driver keeps the clock within [lowest, highest].
struct ClockRange {
  Megahertz lowest, highest;
  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};

/// The range of power limits that can be set, and the factory default.
struct PowerLimitRange {
  Watts lowest, highest, factory;
};

/// Reasons why the clock differs from the requested one: NVML's bits (`nvmlClocksEventReasons`).
struct EventReasons {
  static constexpr std::uint64_t kIdle = 0x1, kApplicationClocks = 0x2, kPowerCap = 0x4,
                                 kHardwareSlowdown = 0x8, kSyncBoost = 0x10,
                                 kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                                 kPowerBrake = 0x80, kDisplay = 0x100;
  std::uint64_t bits = 0;

  /// Returns true if a reason is set for which the GPU does not honour a clock lock. Samples taken
  /// at that time are invalid.
  bool throttled() const {
    return (bits & (kPowerCap | kHardwareSlowdown | kSoftwareThermal | kHardwareThermal |
                    kPowerBrake)) != 0;
  }
  /// Returns the reasons as text, such as "power cap, hardware thermal"; empty if there are none.
  std::string text() const;
};

/// The GPU memory in use by programs and the driver, and the total.
struct MemoryUse {
  std::uint64_t used_bytes = 0, total_bytes = 0;
};

/// The part of the machine that a GPU's power and energy include. Some superchips meter only the
/// whole module.
enum class PowerScope : unsigned char { kGpu, kModule };

class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuIdentity& identity() const = 0;
  /// Sets the index among the GPUs of all backends. For `open_devices`.
  virtual void set_index(int /*index*/) {}
  /// Returns the file that a process locks (flock) while it sets this GPU on behalf of others. All
  /// processes of the machine use the same file, and several GPUs may share one. Empty if no other
  /// process can access this GPU.
  virtual std::filesystem::path owner_lock() const;
  /// Returns the device file through which programs compute on this GPU only; empty if unknown.
  virtual std::filesystem::path device_file() const { return {}; }

  /// Returns the energy since the driver was loaded. The counter advances in steps (about every
  /// 100 ms on data-centre GPUs).
  virtual Result<Joules> total_energy();
  /// Returns the present power, averaged over as short a time as the sensor allows.
  virtual Result<Watts> instant_power();
  /// Returns the average power over about the last second.
  virtual Result<Watts> average_power();
  virtual PowerScope power_scope() const { return PowerScope::kGpu; }

  virtual Result<Megahertz> clock(ClockDomain domain);
  /// Returns the clocks that can be locked, in ascending order.
  virtual Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain);
  /// Returns the lock in force if the driver reports it (NVML does not); nullopt if not locked.
  virtual Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain);

  virtual Result<Watts> power_limit();           ///< the limit that was set
  virtual Result<Watts> enforced_power_limit();  ///< the lowest of all limits in force
  virtual Result<PowerLimitRange> power_limit_range();

  virtual Result<double> temperature();  ///< degrees Celsius
  virtual Result<double> utilisation();  ///< share of recent time in which the GPU was busy, 0 to 1
  virtual Result<MemoryUse> memory();
  virtual Result<EventReasons> event_reasons();
  virtual Result<bool> persistence_mode();
  /// Returns the ids of the processes that compute on this GPU and are visible to this process.
  virtual Result<std::vector<std::int64_t>> processes();

  /// Returns ok if this process can probably set clocks and limits. Checks the process's privileges
  /// without a driver call; the driver decides at the first attempt. Fails with `kNotSupported` in
  /// MIG mode, because all instances share these settings.
  virtual Status may_set() const;
  /// Locks a clock. The driver rounds to supported clocks, so read the clock back.
  virtual Status set_locked_clocks(ClockDomain domain, ClockRange range);
  virtual Status reset_locked_clocks(ClockDomain domain);
  virtual Status set_power_limit(Watts limit);
  virtual Status set_persistence_mode(bool enabled);

 protected:
  Error not_supported(const std::string& what) const;
};

/// Energy of one CPU package since an arbitrary start. Never decreases: wraps are accounted for.
struct CpuEnergy {
  Joules package;
  std::optional<Joules> dram;
};

/// One CPU package (socket), or one die of it if the processor meters each die.
class Cpu {
 public:
  virtual ~Cpu() = default;
  virtual int index() const = 0;
  virtual const std::string& name() const = 0;  ///< "package-0", "package-0-die-1"
  virtual bool has_dram() const = 0;
  /// Reads the counters. Must be called more often than they wrap (every 30 s is enough), or a wrap
  /// is missed.
  virtual Result<CpuEnergy> total_energy() = 0;
};

}  // namespace harpe
