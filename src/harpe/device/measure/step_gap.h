#pragma once
/// \file
/// How much energy was used between instants within a gap between two known steps of an energy
/// counter, of which only the sum is known, and what lies on both sides of it.
///
/// Model. Power runs on through the gap as it does on both sides; or it runs on from the left for
/// some time, and from there as it does on the right; in a short window it may be at a third level
/// in between, as where a command begins and ends within a step. When it changes is not known:
/// often at the very edge of a window, because commands bring load, else at any moment. Given the
/// moments, everything is normally distributed; what the counter rose by and the samples within the
/// gap say which moments are likely. Private to the room.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/device/measure/power_regression.h"

namespace harpe::device {

/// Times are in seconds from the step on the left.
struct StepGap {
  double length = 0;     ///< to the step on the right, or to the last reading where none came yet
  bool is_open = false;  ///< no step on the right came yet
  /// All steps of the counter that readings name; the first is on the left of the gap.
  std::vector<StepTime> steps;
  int right_step = -1;                   ///< number of the one on the right; -1: open
  std::vector<SpanReading> left, right;  ///< beside the gap, nearest first
  std::vector<SpanReading> rises;        ///< what the counter rose by within; none where open
  std::vector<SpanReading> samples;      ///< of power within
  PowerPrior prior;
  double left_level = 0, right_level = 0;  ///< W
  /// Probability that power changed at the edge asked for, and that it did elsewhere in the gap.
  double change_at_edge = 0.4, change_within = 0.25;
};

/// Energy from the left step to an instant.
std::vector<Explanation> energy_until(const StepGap& gap, double instant);
/// Energy between two instants.
std::vector<Explanation> energy_within(const StepGap& gap, double begin, double end);

}  // namespace harpe::device
