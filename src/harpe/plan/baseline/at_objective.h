#pragma once
/// \file
/// The point of a rival's curve for an objective. Pure.

#include <optional>
#include <span>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/objective/objective.h"

namespace harpe::plan {

struct PointAtObjective {
  OneSettingPoint point;
  bool meets_it = true;  ///< false if no point does; `point` is then the nearest
};

/// Returns the point that a user of the varied knob would choose: for an objective of time the
/// point of least energy that meets it, for a power cap the fastest that meets it, else the point
/// of least energy. A point meets an objective if its time or power exceeds it by at most 0.1 %.
/// \param curve      fastest first, see `one_setting_curve`; with the wait for a straggler, if any
/// \param reference  times that the objective is relative to
/// \returns  nullopt for an empty curve. If no point meets the objective: the fastest point, or for
///           a power cap the point of least power
std::optional<PointAtObjective> at_objective(std::span<const OneSettingPoint> curve,
                                             const Objective& objective,
                                             const ReferenceTimes& reference);

}  // namespace harpe::plan
