#pragma once
/// \file
/// What `harpe monitor` shows on a terminal: a title, the node's total, rows of devices, and what
/// runs on them. Pure. Only for `.cc` files.

#include <string>
#include <vector>

#include "harpe/command/cli/monitor_rows.h"
#include "harpe/command/cli/node_use.h"

namespace harpe {

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

}  // namespace harpe
