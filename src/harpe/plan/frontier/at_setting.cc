#include "harpe/plan/frontier/at_setting.h"

namespace harpe::plan {

std::optional<OperatingPoint> at_setting(std::span<const OperatingPoint> points,
                                         const InstructionSetting& setting) {
  if (points.empty()) return std::nullopt;
  const auto [clock, knobs] = setting;
  NearestPoints nearest = nearest_points(points, setting);
  if (nearest.below == nullptr && nearest.above == nullptr) {
    nearest = nearest_points(points, {clock, all_max_point(points).knobs});
  }
  const auto [low, high] = nearest;
  if (low == nullptr || high == nullptr || low == high) {
    const OperatingPoint& only = high == nullptr ? *low : *high;
    return OperatingPoint{clock, only.time, only.energy, knobs};
  }
  const double x = (1.0 / clock.value - 1.0 / low->clock.value) /
                   (1.0 / high->clock.value - 1.0 / low->clock.value);
  return OperatingPoint{clock, low->time + x * (high->time - low->time),
                        low->energy + x * (high->energy - low->energy), knobs};
}

}  // namespace harpe::plan
