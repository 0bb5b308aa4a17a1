#pragma once
/// \file
/// `harpe monitor` on a terminal: the screen that is drawn again and again, and its keys. Only for
/// `.cc` files.

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/command/cli/live_terminal.h"
#include "harpe/command/cli/monitor_look.h"
#include "harpe/command/command/console.h"

namespace harpe {

struct LiveMonitorOptions {
  Seconds first{1};     ///< before the first look
  Seconds interval{1};  ///< between looks
  int count = 0;        ///< of looks, then it ends; 0: any
  Seconds duration{0};  ///< then it ends; 0: never
  bool simulated = false;
};

/// Shows what `monitor` measures from now on, in a window of its own, until the user, a signal or
/// the options end it.
Status show_live_monitor(EnergyMonitor& monitor, const GpuViews& views, LiveTerminal& terminal,
                         const LiveMonitorOptions& options, const Console& console, Clock& clock);

}  // namespace harpe
