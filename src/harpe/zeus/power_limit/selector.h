#pragma once
/// \file
/// The criterion by which a user selects one of the measured settings (You et al., "Zeus", NSDI
/// 2023, section 4.1, and the selectors of its power limit optimizer):
///
///   energy        least joules
///   time          least seconds
///   cost          least eta * J + (1 - eta) * MaxPower * GPUs * s
///   max slowdown  the lowest setting that takes at most factor times the highest setting's time
///
/// Energy, time and cost may be limited to settings that take at most a given factor of the highest
/// setting's time.
///
/// MaxPower is the highest measured power limit, or `max_power` if the settings are clocks. Ties go
/// to the higher setting. Beyond Zeus, the power that the node draws without its GPUs can count: it
/// is added to the joules, and to the cost of a second. Without it the choice is the best for the
/// GPUs alone, which is too low a setting for the node.

#include <cstddef>
#include <optional>
#include <span>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::zeus {

/// Time and energy of a window under one setting, all GPUs together (sum of joules, longest time).
struct Measurement {
  double setting = 0;  ///< W or MHz
  Seconds time{};
  Joules energy{};
  friend bool operator==(const Measurement&, const Measurement&) = default;
};

struct Selector {
  enum class Kind : unsigned char { kEnergy, kTime, kCost, kMaxSlowdown };
  Kind kind = Kind::kCost;
  double eta = 0.5;     ///< kCost, 0 (time alone) to 1 (energy alone)
  double slowdown = 1;  ///< kMaxSlowdown, at least 1
  int gpus = 1;         ///< measured together; used by kCost
  Watts max_power{0};   ///< of a GPU; 0: the highest measured setting, which must be a limit
  Watts host_power{0};  ///< of the node without its GPUs, constant or measured
  /// For kEnergy, kTime and kCost: highest time over the highest setting's, at least 1. Nullopt:
  /// unbounded.
  std::optional<double> most_slowdown{};
};

/// Fails if eta is outside [0, 1], a slowdown is below 1, there is no GPU, or a power is negative
/// or not finite.
Status check(const Selector& selector);

/// Weights of the score to minimize, `per_joule` * J + `per_second` * s. Not for kMaxSlowdown.
struct ScoreWeights {
  double per_joule = 0, per_second = 0;
  double of(Seconds time, Joules energy) const {
    return per_joule * energy.value + per_second * time.value;
  }
};
/// \param highest_setting  of the measured settings
ScoreWeights weights_of(const Selector& selector, double highest_setting);

/// Returns the position of the chosen measurement. Measurements must be ordered, highest setting
/// first. Fails without measurements, if the selector is wrong, and if measurements are not finite,
/// not above 0 or not in order.
Result<std::size_t> choose(std::span<const Measurement> measurements, const Selector& selector);

}  // namespace harpe::zeus
