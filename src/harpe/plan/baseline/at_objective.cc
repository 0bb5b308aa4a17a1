#include "harpe/plan/baseline/at_objective.h"

#include <algorithm>

namespace harpe::plan {
namespace {

constexpr double kTolerance = 1e-3;  // as for the rivals of a plan

Watts mean_power(const OneSettingPoint& point) {
  return point.iteration_energy / point.iteration_time;
}

}  // namespace

std::optional<PointAtObjective> at_objective(std::span<const OneSettingPoint> curve,
                                             const Objective& objective,
                                             const ReferenceTimes& reference) {
  if (curve.empty()) return std::nullopt;
  const auto meets = [&](const OneSettingPoint& point) {
    return is_met(objective, reference, point.iteration_time, point.iteration_energy, kTolerance);
  };
  if (objective.is_cap()) {
    const auto fastest = std::ranges::find_if(curve, meets);
    if (fastest != curve.end()) return PointAtObjective{*fastest};
    return PointAtObjective{*std::ranges::min_element(curve, {}, mean_power), false};
  }
  // On a curve the slowest point needs the least energy.
  const auto least = std::find_if(curve.rbegin(), curve.rend(), meets);
  if (least != curve.rend()) return PointAtObjective{*least};
  return PointAtObjective{curve.front(), false};
}

}  // namespace harpe::plan
