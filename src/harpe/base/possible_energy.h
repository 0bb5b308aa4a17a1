#pragma once
/// \file
/// Detection of impossible energy measurements: a counter that wrapped, a wrong unit.

#include <cmath>
#include <string>

#include "harpe/base/text.h"
#include "harpe/base/units.h"

namespace harpe {

/// A power above that of any GPU. The highest power limits in 2026 are 1.4 kW.
inline constexpr Watts kMostGpuPower{5000};
/// Power may exceed the limit of a GPU for some milliseconds, so sensors may report more than the
/// limit. Twice the limit is more than was ever observed.
inline constexpr double kMostOverLimit = 2;

/// Returns the reason why devices cannot have used this energy, as text for a user; empty if they
/// can, or if the energy is NaN (not measured).
/// \param error  half-width of the energy's 95 % interval. The energy is impossible only if the
///               interval of three times this width has no possible value.
/// \param most   highest power of all devices together
inline std::string why_impossible(Joules energy, Joules error, Seconds time, Watts most) {
  const Joules farthest = 3 * error, limit = most * time;
  const bool is_below = (energy + farthest) < Joules{0};
  const bool is_above = (energy - farthest) > limit;
  if (!is_below && !is_above) return {};
  std::string text = shortest(energy.value, 4) + " J in " + shortest(time.value, 4) + " s ";
  if (is_below) return text + "is negative";
  return text + "is more than " + shortest(most.value, 1) + " W, the highest possible power";
}

}  // namespace harpe
