#pragma once
/// \file
/// What `harpe monitor` shows on a terminal: a title, the node's total, rows of devices, and what
/// runs on them. Pure. Only for `.cc` files.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/command/cli/monitor_view.h"

namespace harpe::command {

/// Power of one device over the last minutes. Not thread-safe.
class PowerHistory {
 public:
  static constexpr Seconds kSpan{300};
  /// If two samples are nearer to each other, only the first is kept.
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

struct MonitorState {
  enum class Order : unsigned char { kIndex, kPower, kBusy, kTemperature, kEnergy };

  Look look;
  std::vector<PowerHistory> history;  ///< of each device of `look`
  std::vector<GpuUser> users;
  Instant now{};        ///< of the look
  Seconds interval{1};  ///< between looks
  std::string node, time_of_day;
  bool simulated = false;
  bool paused = false;
  bool help = false;  ///< instead of the devices
  Order order = Order::kIndex;
  int scroll = 0;  ///< devices above the first that is shown
};

struct MonitorScreen {
  std::vector<std::string> lines;
  int shown = 0;        ///< devices
  int most_scroll = 0;  ///< from where the last device is shown
};

/// At most so many columns (20 at least) and lines (4 at least; 0: any). O(devices).
MonitorScreen monitor_screen(const MonitorState& state, int columns, int lines, bool coloured);

/// "power", of "sorted by power".
const char* name_of(MonitorState::Order order);
MonitorState::Order next_of(MonitorState::Order order);

/// "312.1 ± 0.4 kJ": with a unit that leaves few digits, as of long views.
std::string short_energy_text(const EnergyEstimate& energy);

}  // namespace harpe::command
