#include "harpe/report/curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace harpe::report {

std::vector<CurvePoint> thin_curve(std::span<const CurvePoint> curve, Joules tolerance) {
  if (curve.size() < 3) return {curve.begin(), curve.end()};
  std::vector<char> kept(curve.size(), 0);
  kept.front() = kept.back() = 1;
  std::vector<std::pair<std::size_t, std::size_t>> open = {{0, curve.size() - 1}};
  while (!open.empty()) {
    const auto [first, last] = open.back();
    open.pop_back();
    const double width = (curve[last].first - curve[first].first).value;
    const double rise = (curve[last].second - curve[first].second).value;
    double farthest = tolerance.value;
    std::size_t at = first;
    for (std::size_t i = first + 1; i < last; ++i) {
      const double part = width > 0 ? (curve[i].first - curve[first].first).value / width : 0;
      const double distance = std::abs((curve[i].second - curve[first].second).value - part * rise);
      if (distance > farthest) {
        farthest = distance;
        at = i;
      }
    }
    if (at == first) continue;
    kept[at] = 1;
    open.emplace_back(first, at);
    open.emplace_back(at, last);
  }
  std::vector<CurvePoint> thin;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (kept[i] != 0) thin.push_back(curve[i]);
  }
  return thin;
}

std::vector<CurvePoint> shown_bound(std::span<const CurvePoint> bound) {
  if (bound.empty()) return {};
  const auto by_energy = [](const CurvePoint& a, const CurvePoint& b) {
    return a.second < b.second;
  };
  const auto [least, most] = std::minmax_element(bound.begin(), bound.end(), by_energy);
  // A hundredth of what a gap is measured in: 0.001 % of the energy, and no pixel of the range.
  const Joules tolerance = std::min(1e-5 * least->second, 2e-4 * (most->second - least->second));
  return thin_curve(bound, tolerance);
}

Seconds fastest_time(const ReportInput& input) {
  if (!input.bound.empty()) return input.bound.front().first;
  return input.points.empty() ? Seconds{0} : input.points.front().time;
}

Seconds least_energy_time(const ReportInput& input) {
  Seconds time{0};
  Joules least{INFINITY};
  const auto consider = [&](Seconds at, Joules energy) {
    if (energy < least) {
      least = energy;
      time = at;
    }
  };
  for (const auto& [at, energy] : input.bound) consider(at, energy);
  if (input.bound.empty()) {
    for (const ReportPoint& point : input.points) consider(point.time, point.energy);
  }
  return time;
}

bool has_tight_bound(const ReportPoint& point) {
  constexpr double kShown = 2e-5;  // gaps have three decimals
  return point.lower_bound > Joules{0} && point.tight_bound > point.lower_bound * (1 + kShown);
}

Joules drawn_bound(const ReportInput& input, const ReportPoint& point) {
  const bool is_late = !input.late_bound.empty() && has_tight_bound(point);
  return is_late ? point.tight_bound : point.lower_bound;
}

const Plan& all_max_for(const ReportInput& input, const ReportPoint& point) {
  const bool is_alone = input.all_max_alone && point.time < input.all_max.iteration_time;
  return is_alone ? *input.all_max_alone : input.all_max;
}

const ReportPoint& chosen_point(const ReportInput& input) {
  return input.points[std::min(input.chosen, input.points.size() - 1)];
}

}  // namespace harpe::report
