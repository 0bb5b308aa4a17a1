#pragma once
/// \file
/// Energy of CPU packages and their memory, from the counters that Linux shows under
/// /sys/class/powercap (RAPL: Intel since Sandy Bridge; AMD since family 17h, packages only).
///
/// A control type ("intel-rapl", over model-specific registers or TPMI, on AMD too;
/// "intel-rapl-mmio", the same packages over memory-mapped registers) has one zone for each
/// package, named in the file `name`: "package-0", or "package-0-die-1" if each die is metered.
/// Zones below it are parts of the package ("core", "uncore"), which are not added to it, and
/// "dram", which is added. "psys" meters the whole platform and is no package. (Kernel
/// documentation, "Power Capping Framework".)
///
/// Since 2020 only root may read the counters; most virtual machines have none.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/devices.h"

namespace harpe::device {

/// "package-0" or "package-0-die-1".
struct PackageName {
  int package = 0;
  int die = 0;
  friend auto operator<=>(const PackageName&, const PackageName&) = default;
};
std::optional<PackageName> parse_package_name(std::string_view text);

/// The content of `energy_uj` or `max_energy_range_uj`: a whole number of microjoules.
std::optional<std::uint64_t> parse_microjoules(std::string_view text);

/// The zone of one package.
struct PackageZone {
  PackageName order;
  std::string name;  ///< as in the file
  std::filesystem::path directory;
  std::optional<std::filesystem::path> dram;  ///< the zone of its memory
};

/// Returns the packages under `root` (/sys/class/powercap), each once, in order. Ignores other
/// directories and those that cannot be read. Looks below the control types too, because containers
/// have only those mounted.
std::vector<PackageZone> find_package_zones(const std::filesystem::path& root);

/// A running total over a counter that wraps. Not thread-safe.
///
/// Model: the kernel shows the low bits of an energy counter as microjoules in [0, range]. The
/// counter may wrap at most once between two readings: its values do not show how often. It may
/// also restart (driver loaded again, firmware after sleep), which looks like a wrap. Power tells
/// the two apart: a wrap that would have taken more than `highest_power` is a restart.
///
/// The total never falls. It is exact as long as readings come more often than the counter wraps. A
/// restart loses the energy between the last reading and the restart. A counter that restarts and
/// passes the last reading before the next one goes unnoticed, and loses that reading too. Neither
/// adds anything.
class EnergyCounter {
 public:
  /// More than any CPU package or its memory draws.
  static constexpr Watts kHighestPower{2000};

  /// \param range_uj  the highest value before the wrap; 0 if unknown: every fall is a restart
  explicit EnergyCounter(std::uint64_t range_uj, Watts highest_power = kHighestPower)
      : range_(range_uj), highest_power_(highest_power) {}

  /// Adds the reading `value_uj` of the instant `now`, which must not precede the last one. Returns
  /// the energy since the first reading.
  Joules add(std::uint64_t value_uj, Instant now);

 private:
  struct Reading {
    std::uint64_t value;
    Instant time;
  };

  std::uint64_t range_;
  Watts highest_power_;
  std::uint64_t total_ = 0;  ///< microjoules
  std::optional<Reading> last_;
};

struct RaplDevices {
  std::vector<std::unique_ptr<Cpu>> cpus;
  BackendState state;
};

/// Opens the packages under `root`. A package whose counter this user may not read is among them
/// and returns `kNoPermission`; the state then names a remedy. `clock` must outlive the CPUs.
RaplDevices open_rapl(const std::filesystem::path& root, Clock& clock);

}  // namespace harpe::device
