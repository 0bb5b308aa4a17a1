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
  if (const auto time = time_of(objective, reference)) {
    // On a curve the slowest needs the least energy.
    const auto late = std::ranges::find_if(curve, [&](const OneSettingPoint& point) {
      return point.iteration_time > *time * (1 + kTolerance);
    });
    if (late == curve.begin()) return PointAtObjective{curve.front(), false};
    return PointAtObjective{*std::prev(late)};
  }
  if (objective.kind != Objective::Kind::kPowerCap) return PointAtObjective{curve.back()};
  const Watts cap{objective.value * (1 + kTolerance)};
  const auto fits = std::ranges::find_if(
      curve, [&](const OneSettingPoint& point) { return mean_power(point) <= cap; });
  if (fits != curve.end()) return PointAtObjective{*fits};
  return PointAtObjective{*std::ranges::min_element(curve, {}, mean_power), false};
}

}  // namespace harpe::plan
