#pragma once
/// \file
/// Estimation of the time of each counter step from many steps. A reader knows the time of a step
/// to some milliseconds. The times of regular steps lie on a line over their number, so many steps
/// determine each far better. Pure.

#include <vector>

#include "harpe/device/measure/energy_estimator.h"

namespace harpe::device {

/// Returns the steps, which are in order of time, with their times moved to the line through all of
/// them, but within the readings around each step. The deviation of steps from the line is learned.
/// Leaves steps unchanged that precede a restart or a long gap, are irregular or too few. O(steps).
std::vector<CounterEdge> on_their_grid(std::vector<CounterEdge> edges);

}  // namespace harpe::device
