#pragma once
/// \file
/// The rows that `harpe monitor` draws of devices on a terminal: a few lines each, whose columns
/// depend on the terminal's size and never on what devices show, so that nothing jumps. Pure. Only
/// for `.cc` files.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/command/cli/monitor_view.h"

namespace harpe {

/// Power of one device over the last minutes. Not thread-safe.
class PowerHistory {
 public:
  static constexpr Seconds kSpan{300};
  /// Of samples nearer to each other the first is kept.
  static constexpr Seconds kNearest{0.25};

  void add(Instant at, Watts power);
  /// Means of equal spans up to the newest of all, oldest first, as shares of `full`; NaN where
  /// there is none. Spans have fixed places in time: a level changes only while it is the last.
  /// \param interval  between samples: spans are no shorter
  std::vector<double> levels(Instant now, std::size_t count, Watts full, Seconds interval) const;
  std::optional<Watts> highest() const;

 private:
  struct Sample {
    Instant at;
    double watts = 0;
  };
  std::deque<Sample> samples_;
};

/// What stands in a row of a device.
struct MonitorField {
  enum class What : unsigned char {
    kLabel,
    kPower,
    kBusy,
    kClock,
    kTemperature,
    kMemory,
    kEnergy,
    kHistory,
    kHeldBack,
    kName,
    kMemoryClock
  };
  What what = What::kLabel;
  std::size_t width = 0;
};

/// Which fields stand in which of the lines of a device, in the order they are seen.
struct MonitorLayout {
  std::vector<std::vector<MonitorField>> lines;
  bool complete = false;  ///< every field has its place
};

/// What matters most comes first, and what finds no place in so many lines is left out. Lines are
/// as wide as `columns` where a field can grow. \param label  the widest of the devices' labels
MonitorLayout monitor_layout(std::size_t columns, std::size_t lines, std::size_t label);

/// The names of the columns, a line for each of the layout's.
std::vector<std::string> monitor_headings(const MonitorLayout& layout, bool coloured);

/// One device, and when.
struct MonitorRow {
  const DeviceEnergy& device;
  GpuView gpu;                 ///< of a CPU: empty
  std::optional<Watts> power;  ///< now
  const PowerHistory& history;
  Instant now;
  Seconds interval;
};
/// Lines in which the device has nothing are left out.
std::vector<std::string> monitor_row(const MonitorRow& row, const MonitorLayout& layout,
                                     bool coloured);

/// "312.1 ± 0.4 kJ": with a unit that leaves few digits, as of long views.
std::string short_energy_text(const EnergyEstimate& energy);

}  // namespace harpe
