#pragma once
/// \file
/// Devices that use energy, behind one interface: what can be read from a GPU and set on it, and
/// what a CPU package has. Backends (`hw/nvml`, `hw/rocm`, `hw/rapl`, `hw/sim`) implement it and
/// are found at run time (devices.h).
///
///   const auto energy = gpu.total_energy();
///   const auto set = gpu.set_locked_clocks(harpe::ClockDomain::kGraphics, {1200_MHz, 1200_MHz});
///   if (!set.ok()) std::puts(set.error().text().c_str());
///
/// A call goes to the driver and may take milliseconds, or half a second on a bad day. A device is
/// not thread-safe: one thread owns it at a time; different devices may be used from different
/// threads. Whatever a device cannot do answers `kNotSupported`; what this process may not do,
/// `kNoPermission` with the remedy; a device that went away, `kUnavailable`.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// What tells one GPU of a machine from another. The UUID and the PCI address stay; the index
/// counts in the order of the backend and may change with the machine's configuration.
struct GpuIdentity {
  int index = 0;        ///< position in PCI order among the GPUs of all backends
  std::string uuid;     ///< "GPU-7a5e..." as the driver writes it
  std::string pci;      ///< "0000:65:00.0", lower case
  std::string name;     ///< "NVIDIA A40"
  std::string backend;  ///< "nvml", "rocm", "sim"
  bool is_mig = false;  ///< divided into instances, which have no clock or power of their own
  double speed = 0;     ///< cores x top clock: for CUDA's order "fastest first"; 0: unknown
};

enum class ClockDomain : unsigned char { kGraphics, kMemory };

/// A lock on a clock: the driver keeps it within [lowest, highest].
struct ClockRange {
  Megahertz lowest, highest;
  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};

/// Power limits that can be set, and the one the GPU came with.
struct PowerLimitRange {
  Watts lowest, highest, factory;
};

/// Why the clock is not what was asked for: NVML's bits (NVIDIA's `nvmlClocksEventReasons`).
struct EventReasons {
  static constexpr std::uint64_t kIdle = 0x1, kApplicationClocks = 0x2, kPowerCap = 0x4,
                                 kHardwareSlowdown = 0x8, kSyncBoost = 0x10,
                                 kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                                 kPowerBrake = 0x80, kDisplay = 0x100;
  std::uint64_t bits = 0;

  /// A lock on the clock is not honoured while one of these holds: such samples are not valid.
  bool throttled() const {
    return (bits & (kPowerCap | kHardwareSlowdown | kSoftwareThermal | kHardwareThermal |
                    kPowerBrake)) != 0;
  }
  /// "power cap, hardware thermal"; empty when none holds.
  std::string text() const;
};

/// Of a GPU: what programs and the driver have taken of it, of all there is.
struct MemoryUse {
  std::uint64_t used_bytes = 0, total_bytes = 0;
};

/// What the power and energy of a GPU include. On superchips only the whole module may be metered.
enum class PowerScope : unsigned char { kGpu, kModule };

class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuIdentity& identity() const = 0;
  /// Gives it its place among the GPUs of all backends. For `open_devices`.
  virtual void set_index(int /*index*/) {}
  /// A file that a process which sets this GPU for others locks (flock), the same for all processes
  /// of the machine; several GPUs may have one. Empty: no other process has this GPU.
  virtual std::filesystem::path owner_lock() const;
  /// The device file through which programs compute on it alone; empty: none is known.
  virtual std::filesystem::path device_file() const { return {}; }

  /// Energy since the driver was loaded. Advances in steps (about 100 ms on data-centre GPUs).
  virtual Result<Joules> total_energy();
  /// Power as near to this moment as the sensor gets.
  virtual Result<Watts> instant_power();
  /// Power over about the last second.
  virtual Result<Watts> average_power();
  virtual PowerScope power_scope() const { return PowerScope::kGpu; }

  virtual Result<Megahertz> clock(ClockDomain domain);
  /// Clocks that can be locked, rising.
  virtual Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain);
  /// The lock in force, where the driver tells (NVML does not); nullopt: not locked.
  virtual Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain);

  virtual Result<Watts> power_limit();           ///< as set
  virtual Result<Watts> enforced_power_limit();  ///< the least of all limits in force
  virtual Result<PowerLimitRange> power_limit_range();

  virtual Result<double> temperature();  ///< degrees Celsius
  virtual Result<double> utilisation();  ///< share of the last moments with work on it, 0 to 1
  virtual Result<MemoryUse> memory();
  virtual Result<EventReasons> event_reasons();
  virtual Result<bool> persistence_mode();
  /// Ids of the processes that compute on it, as this process may see them.
  virtual Result<std::vector<std::int64_t>> processes();

  /// Whether this process may probably set clocks and limits: looks at what it is and asks nothing.
  /// The driver decides when it is tried. `kNotSupported` in MIG mode: all instances share them.
  virtual Status may_set() const;
  /// The driver rounds to clocks it supports: read back.
  virtual Status set_locked_clocks(ClockDomain domain, ClockRange range);
  virtual Status reset_locked_clocks(ClockDomain domain);
  virtual Status set_power_limit(Watts limit);
  virtual Status set_persistence_mode(bool enabled);

 protected:
  Error not_supported(const std::string& what) const;
};

/// Energy of one CPU package since some start; never falls, whatever the counter wraps.
struct CpuEnergy {
  Joules package;
  std::optional<Joules> dram;
};

/// One CPU package (socket), or one die of it where the processor meters each.
class Cpu {
 public:
  virtual ~Cpu() = default;
  virtual int index() const = 0;
  virtual const std::string& name() const = 0;  ///< "package-0", "package-0-die-1"
  virtual bool has_dram() const = 0;
  /// Must be read more often than the counter wraps (every 30 s will do), or wraps are lost.
  virtual Result<CpuEnergy> total_energy() = 0;
};

}  // namespace harpe
