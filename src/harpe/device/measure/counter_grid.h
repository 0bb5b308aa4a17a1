#pragma once
/// \file
/// What many steps of a counter together say of each. When a counter steps, its reader knows when
/// to some milliseconds; where steps come regularly, they lie on a line over their number, and each
/// is known far better once there are many. Pure.

#include <vector>

#include "harpe/device/measure/energy_estimator.h"

namespace harpe::device {

/// Steps, in order of time, put where the line through all of them says they came, between the
/// readings that saw them; how far steps stray from the line is learnt, too. Steps before a restart
/// or a long gap, too few, or such that come irregularly stay as they are. O(steps).
std::vector<CounterEdge> on_their_grid(std::vector<CounterEdge> edges);

}  // namespace harpe::device
