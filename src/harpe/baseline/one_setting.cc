#include "harpe/baseline/one_setting.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace harpe {
namespace {

// Relative difference of times or energies that counts as none.
constexpr double kAlike = 1e-3;

std::vector<OneSettingPoint> only_best(std::vector<OneSettingPoint> points) {
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

}  // namespace

std::vector<OneSettingPoint> one_setting_curve(std::vector<OneSettingPoint> points, Knob knob) {
  if (knob == Knob::kClock) {
    std::erase_if(points, [](const auto& point) { return !point.setting.knobs.empty(); });
    return only_best(std::move(points));
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
  return only_best(std::move(limits));
}

std::vector<OneSettingPoint> waiting(std::vector<OneSettingPoint> points, Seconds waits_until,
                                     Watts waiting_power) {
  for (OneSettingPoint& point : points) {
    if (point.iteration_time >= waits_until) continue;
    point.iteration_energy += waiting_power * (waits_until - point.iteration_time);
    point.iteration_time = waits_until;
  }
  return only_best(std::move(points));
}

Rivals rivals_of(std::span<const OneSettingPoint> curve, Seconds time, Joules energy,
                 Joules all_max) {
  Rivals rivals;
  for (const OneSettingPoint& point : curve) {
    const bool is_cheaper = point.iteration_energy <= all_max * (1 - kAlike);
    if (point.iteration_time <= time * (1 + kAlike)) {
      rivals.no_slower = point;  // the slowest of a curve takes the least energy
    } else if (is_cheaper && !rivals.next_cheaper) {
      rivals.next_cheaper = point;
    } else if (point.iteration_energy <= energy) {
      rivals.as_cheap = point;
      break;
    }
  }
  if (rivals.no_slower && rivals.no_slower->iteration_energy <= all_max * (1 - kAlike))
    rivals.next_cheaper.reset();
  return rivals;
}

}  // namespace harpe
