#pragma once
/// \file
/// The screen of `harpe monitor` on a terminal: a title, the node's total, rows of devices, and the
/// programs that run on them. Pure. Include only in `.cc` files.

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
  /// If two samples are closer than this, only the first is kept.
  static constexpr Seconds kNearest{0.25};

  void add(Instant at, Watts power);
  /// Returns the means of equal spans up to now, oldest first, as shares of `full`; NaN for a span
  /// without a sample. The limits of spans are fixed in time: only the level of the last span
  /// changes.
  /// \param interval  between samples; spans are not shorter
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
  Instant now{};        ///< time of `look`
  Seconds interval{1};  ///< between readings
  std::string node, time_of_day;
  bool simulated = false;
  bool paused = false;
  bool help = false;  ///< instead of the devices
  Order order = Order::kIndex;
  int scroll = 0;  ///< number of devices above the first one shown
};

struct MonitorScreen {
  std::vector<std::string> lines;
  int shown = 0;        ///< devices
  int most_scroll = 0;  ///< scroll position at which the last device is shown
};

/// Returns the screen, with at most `columns` columns (20 at least) and `lines` lines (4 at least;
/// 0: any). O(devices).
MonitorScreen monitor_screen(const MonitorState& state, int columns, int lines, bool coloured);

/// Returns, for example, "power", for "sorted by power".
const char* name_of(MonitorState::Order order);
MonitorState::Order next_of(MonitorState::Order order);

/// Returns the energy with a unit that needs few digits, for long views: "312.1 ± 0.4 kJ".
std::string short_energy_text(const EnergyEstimate& energy);

}  // namespace harpe::command
