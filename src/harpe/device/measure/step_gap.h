#pragma once
/// \file
/// Energy between instants within a gap between two known steps of an energy counter. Known are the
/// total energy of the gap and the readings on both sides of it.
///
/// Model. Power continues through the gap as on both sides; or it continues from the left up to a
/// change and then as on the right; in a short window it may have a third level in between, if a
/// command begins and ends within a step. The instants of change are unknown: often the edge of a
/// window, because a command changes the load, else any instant. Given these instants, all
/// quantities are normally distributed. The counter's rises and the samples within the gap
/// determine the probabilities of the instants. Private to the room.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/device/measure/power_regression.h"

namespace harpe::device {

/// Times are in seconds from the step on the left.
struct StepGap {
  double length = 0;     ///< time to the step on the right, or to the last reading if open
  bool is_open = false;  ///< true if there is no step on the right yet
  /// All steps of the counter that readings refer to; the first is on the left of the gap.
  std::vector<StepTime> steps;
  int right_step = -1;                   ///< number of the step on the right; -1 if open
  std::vector<SpanReading> left, right;  ///< readings beside the gap, nearest first
  std::vector<SpanReading> rises;        ///< rises of the counter within the gap; empty if open
  std::vector<SpanReading> samples;      ///< samples of power within the gap
  PowerPrior prior;
  double left_level = 0, right_level = 0;  ///< W
  /// Probabilities that power changed at the given edge, and elsewhere in the gap.
  double change_at_edge = 0.4, change_within = 0.25;
};

/// Returns the explanations of the energy from the left step to an instant.
std::vector<Explanation> energy_until(const StepGap& gap, double instant);
/// Returns the explanations of the energy between two instants.
std::vector<Explanation> energy_within(const StepGap& gap, double begin, double end);

}  // namespace harpe::device
