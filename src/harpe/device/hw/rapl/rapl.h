#pragma once
/// \file
/// Energy of CPU packages and their memory, from Linux's counters under /sys/class/powercap (RAPL:
/// Intel since Sandy Bridge; AMD since family 17h, packages only).
///
/// A control type ("intel-rapl", over model-specific registers or TPMI, on AMD too;
/// "intel-rapl-mmio", the same packages over memory-mapped registers) has one zone for each
/// package, named in the file `name`: "package-0", or "package-0-die-1" if each die is metered.
/// Zones below it are parts of the package ("core", "uncore"), whose energy the package includes,
/// and "dram", whose energy it does not include. "psys" meters the whole platform and is ignored.
/// (Kernel documentation, "Power Capping Framework".)
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

/// A parsed name such as "package-0" or "package-0-die-1".
struct PackageName {
  int package = 0;
  int die = 0;
  friend auto operator<=>(const PackageName&, const PackageName&) = default;
};
std::optional<PackageName> parse_package_name(std::string_view text);

/// Parses the content of `energy_uj` or `max_energy_range_uj`: a whole number of microjoules.
std::optional<std::uint64_t> parse_microjoules(std::string_view text);

/// The zone of one package.
struct PackageZone {
  PackageName order;
  std::string name;  ///< content of the file `name`
  std::filesystem::path directory;
  std::optional<std::filesystem::path> dram;  ///< zone of the package's memory
};

/// Returns the packages under `root` (/sys/class/powercap), each once, in order. Ignores other
/// directories and unreadable ones. Also searches below the control types, because containers have
/// only those mounted.
std::vector<PackageZone> find_package_zones(const std::filesystem::path& root);

/// A running total over a counter that wraps. Not thread-safe.
///
/// Model: the kernel shows the low bits of an energy counter as microjoules in [0, range]. Values
/// do not show the number of wraps, so the counter may wrap at most once between two readings. It
/// may also restart (driver loaded again, firmware after sleep), which looks like a wrap. Power
/// distinguishes the two: a wrap that would require more than `highest_power` is a restart.
///
/// The total never decreases. It is exact if readings are more frequent than wraps. A restart loses
/// the energy between the last reading and the restart. If the restarted counter exceeds the last
/// reading before it is read again, the restart is not detected and the value of the last reading
/// is lost too. The total is never too high.
class EnergyCounter {
 public:
  /// A power that no CPU package and no memory reaches.
  static constexpr Watts kHighestPower{2000};

  /// \param range_uj  highest value before the wrap; if 0 (unknown), every decrease is a restart
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

/// Opens the packages under `root`, including packages whose counter this user may not read. These
/// return `kNoPermission`, and the state then names a remedy. `clock` must outlive the CPUs.
RaplDevices open_rapl(const std::filesystem::path& root, Clock& clock);

}  // namespace harpe::device
