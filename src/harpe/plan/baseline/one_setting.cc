#include "harpe/plan/baseline/one_setting.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace harpe::plan {
namespace {

// Relative difference of times or energies up to which they count as equal.
constexpr double kAlike = 1e-3;

/// Returns the points that differ in `knob` alone; for each power limit, the point with the highest
/// clock.
std::vector<OneSettingPoint> differing_in(std::vector<OneSettingPoint> points, VariedKnob knob) {
  if (knob == VariedKnob::kClock) {
    std::erase_if(points, [](const auto& point) { return !point.setting.knobs.empty(); });
    return points;
  }
  std::map<double, OneSettingPoint> of_limit;
  for (const OneSettingPoint& point : points) {
    Knobs others = point.setting.knobs;
    const Watts limit = std::exchange(others.power_limit, Watts{});
    if (limit == Watts{} || !others.empty()) continue;
    const auto [place, is_new] = of_limit.try_emplace(limit.value, point);
    if (!is_new && place->second.setting.clock < point.setting.clock) place->second = point;
  }
  std::vector<OneSettingPoint> limits;
  for (auto& [limit, point] : of_limit) limits.push_back(point);
  return limits;
}

}  // namespace

std::vector<OneSettingPoint> best_points(std::vector<OneSettingPoint> points,
                                         const StragglerWait& wait) {
  // Adds the waits before the best are kept: a setting that needs more energy than a faster one can
  // wait less, and need less in total.
  for (OneSettingPoint& point : points) {
    if (point.iteration_time >= wait.until) continue;
    point.iteration_energy += wait.power * (wait.until - point.iteration_time);
    point.iteration_time = wait.until;
  }
  std::ranges::sort(points, {}, [](const OneSettingPoint& point) {
    return std::pair(point.iteration_time, point.iteration_energy);
  });
  Joules least{std::numeric_limits<double>::infinity()};
  std::erase_if(points, [&](const OneSettingPoint& point) {
    if (point.iteration_energy >= least) return true;
    least = point.iteration_energy;
    return false;
  });
  return points;
}

std::vector<OneSettingPoint> one_setting_curve(std::vector<OneSettingPoint> points, VariedKnob knob,
                                               const StragglerWait& wait) {
  return best_points(differing_in(std::move(points), knob), wait);
}

Rivals rivals_of(std::span<const OneSettingPoint> curve, Seconds time, Joules energy,
                 Joules all_max) {
  // Energy falls along a curve: the slowest point needs the least, and the first one within
  // is the fastest.
  const auto fastest_within = [&](Joules most) -> std::optional<OneSettingPoint> {
    const auto place = std::ranges::find_if(
        curve, [&](const OneSettingPoint& point) { return point.iteration_energy <= most; });
    return place == curve.end() ? std::nullopt : std::optional(*place);
  };
  Rivals rivals;
  for (const OneSettingPoint& point : curve) {
    if (point.iteration_time <= time * (1 + kAlike)) rivals.no_slower = point;
  }
  const auto takes_no_more = [&](Joules most) {
    return rivals.no_slower && rivals.no_slower->iteration_energy <= most;
  };
  const Joules cheaper = all_max * (1 - kAlike);
  if (!takes_no_more(cheaper)) rivals.next_cheaper = fastest_within(cheaper);
  if (!takes_no_more(energy)) rivals.as_cheap = fastest_within(energy);
  if (rivals.as_cheap && rivals.next_cheaper &&
      rivals.as_cheap->setting == rivals.next_cheaper->setting)
    rivals.as_cheap.reset();
  return rivals;
}

}  // namespace harpe::plan
