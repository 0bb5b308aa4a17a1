#pragma once
/// \file
/// The point of a rival's curve for an objective. Pure.

#include <optional>
#include <span>

#include "harpe/frontier/frontier.h"
#include "harpe/objective/objective.h"

namespace harpe {

struct PointAtObjective {
  OneSettingPoint point;
  bool meets_it = true;  ///< false: no point does, and this one comes nearest to it
};

/// Returns the point that a user of that knob would take: of least energy within the time of the
/// objective, the fastest within a power cap, or the one of least energy. Times and powers within
/// 0.1 % of the objective's meet it.
/// \param curve      fastest first, see `one_setting_curve`; beside a straggler, see `waiting`
/// \param reference  times that the objective is relative to
/// \returns  nullopt for an empty curve. If no point meets the objective: the fastest for one of
///           time, the one of least power for a power cap
std::optional<PointAtObjective> at_objective(std::span<const OneSettingPoint> curve,
                                             const Objective& objective,
                                             const ReferenceTimes& reference);

}  // namespace harpe
