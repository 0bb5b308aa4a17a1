#pragma once
/// \file
/// Which of some measured settings a user wants (You et al., "Zeus", NSDI 2023, section 4.1, and
/// the selectors of its power limit optimizer):
///
///   energy        least joules
///   time          least seconds
///   cost          least eta * J + (1 - eta) * MaxPower * GPUs * s
///   max slowdown  the lowest setting that takes at most factor times the highest setting's time
///
/// Energy, time and cost may be bound to settings that take at most so many times the highest
/// setting's time.
///
/// MaxPower is the highest measured power limit, or what the selector says where the settings are
/// clocks. Ties go to the higher setting. Beyond Zeus, the power that the node draws beside its
/// GPUs can count: it is added to the joules, and to what a second costs. Without it the choice is
/// the best for the GPUs alone, which is too low a setting for the node.

#include <cstddef>
#include <optional>
#include <span>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::zeus {

/// What a window under one setting took: all GPUs together (sum of joules, longest time).
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
  int gpus = 1;         ///< that were measured together; kCost
  Watts max_power{0};   ///< of a GPU; 0: the highest measured setting, which is a power limit
  Watts host_power{0};  ///< of the node beside its GPUs, constant or measured
  /// At least 1; of kEnergy, kTime and kCost: time over the highest setting's. None: unbound.
  std::optional<double> most_slowdown{};
};

/// Fails for an eta outside [0, 1], slowdowns below 1, no GPU, negative or non-finite power.
Status check(const Selector& selector);

/// What is to be least is `per_joule` * J + `per_second` * s; not of kMaxSlowdown.
struct ScoreWeights {
  double per_joule = 0, per_second = 0;
  double of(Seconds time, Joules energy) const {
    return per_joule * energy.value + per_second * time.value;
  }
};
/// \param highest_setting  of those measured
ScoreWeights weights_of(const Selector& selector, double highest_setting);

/// Position of the chosen measurement; they stand highest setting first. Fails without
/// measurements, for a wrong selector, and for measurements that are not finite, not above 0 or not
/// in order.
Result<std::size_t> choose(std::span<const Measurement> measurements, const Selector& selector);

}  // namespace harpe::zeus
