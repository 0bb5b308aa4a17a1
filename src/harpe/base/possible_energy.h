#pragma once
/// \file
/// Measured energies that cannot be: a counter that wrapped, a unit that is wrong.

#include <cmath>
#include <string>

#include "harpe/base/text.h"
#include "harpe/base/units.h"

namespace harpe {

/// More than any GPU draws: those of 2026 have limits of up to 1.4 kW.
inline constexpr Watts kMostGpuPower{5000};
/// Power limits hold over some milliseconds; sensors show more for a moment.
inline constexpr double kMostOverLimit = 2;

/// Returns why no devices can have used this energy, for people; empty if they can, or if it is NaN
/// (not measured).
/// \param error  half-width of its 95 % interval, J: an energy is impossible if three of it do not
///               make it possible
/// \param most   that all of them draw
inline std::string why_impossible(Joules energy, Joules error, Seconds time, Watts most) {
  const Joules farthest = 3 * error, limit = most * time;
  const bool is_below = energy + farthest<Joules{0}, is_above = energy - farthest> limit;
  if (!is_below && !is_above) return {};
  std::string text = shortest(energy.value, 4) + " J in " + shortest(time.value, 4) + " s ";
  if (is_below) return text + "is less than nothing";
  return text + "is more than " + shortest(most.value, 1) + " W, the most that can be";
}

}  // namespace harpe
