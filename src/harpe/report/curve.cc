#include "harpe/report/curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "harpe/plan/profile/profile.h"
#include "harpe/report/markup.h"

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
  // 0.001 % of the energy, the last decimal of a gap, and less than a pixel of the range.
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

namespace {

constexpr double kShown = 0.05;  ///< percent that one decimal shows as at least 0.1
/// Percent by which a plan is called faster: profiles have about 0.2 % of noise.
constexpr double kFaster = 0.5;

std::string percent(double value, int decimals = 1) {
  return concat({fixed(value, decimals), "\u00A0%"});
}

std::string speed(double time_change) {
  const double percents = 100 * time_change;
  if (std::abs(time_change) <= 1e-9) return "no slowdown";
  if (percents <= -kFaster) return percent(-percents) + " faster";
  if (percents < 0) return "no slowdown";
  return concat(
      {percents < kShown ? "less than " : "", percent(std::max(0.1, percents)), " slower"});
}

/// Returns the gap between the plan and a bound as tables show it; at least 0.001 %, because a
/// bound is rounded.
std::string gap_words(const ReportPoint& point, Joules bound) {
  const double gap = 100 * (point.energy / bound - 1);
  return (gap < 0.001 ? "less than " : "") + percent(std::max(0.001, gap), 3);
}

std::string saving_words(double saving) {
  const double percents = 100 * saving;
  if (percents >= kShown) return percent(percents) + " less energy";
  if (percents <= -kShown) return percent(-percents) + " more energy";
  return "the same energy";
}

}  // namespace

Comparison compare(const Plan& all_max, Seconds time, Joules energy) {
  if (!(all_max.iteration_time > Seconds{0}) || !(all_max.iteration_energy > Joules{0})) return {};
  return {time / all_max.iteration_time - 1, 1 - energy / all_max.iteration_energy};
}

std::string_view synthetic_remark(const Plan& plan) {
  return plan.synthetic ? kSyntheticRemark : std::string_view();
}

std::string headline(const Plan& all_max, const ReportPoint& point) {
  const auto [time_change, saving] = compare(all_max, point.time, point.energy);
  return concat({"Same computation, ", speed(time_change), ": ", saving_words(saving), "."});
}

std::string explanation(const Plan& all_max, const ReportPoint& point) {
  const DisplayUnit energy = energy_unit(all_max.iteration_energy.value);
  const DisplayUnit time = time_unit(all_max.iteration_time.value);
  const int gpus = all_max.stages * all_max.gpus_per_stage;
  std::string words =
      concat({"An iteration takes ", in_unit(point.energy.value, energy), " and ",
              in_unit(point.time.value, time), " on ", std::to_string(gpus),
              gpus == 1 ? " GPU" : " GPUs", "; with every instruction at its highest clock, ",
              in_unit(all_max.iteration_energy.value, energy), " and ",
              in_unit(all_max.iteration_time.value, time), "."});
  // A plan below its bound would be a defect elsewhere, so nothing is claimed for it.
  const Joules bound = has_tight_bound(point) ? point.tight_bound : point.lower_bound;
  if (bound > Joules{0} && point.energy >= (1 - 1e-9) * bound) {
    words += concat({" No choice of settings that is as fast can need less than ",
                     in_unit(bound.value, energy), ": this plan is within ",
                     gap_words(point, bound), " of the best possible."});
  }
  return words;
}

}  // namespace harpe::report
