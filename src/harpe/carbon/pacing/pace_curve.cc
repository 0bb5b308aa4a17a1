#include "harpe/carbon/pacing/pace_curve.h"

#include <algorithm>
#include <cmath>

namespace harpe::carbon {
namespace {

double slope_between(const CurvePace& slow, const CurvePace& fast) {
  return (fast.power - slow.power).value / (fast.speed - slow.speed);
}

}  // namespace

Result<PaceCurve> PaceCurve::make(const std::vector<PieceCost>& pieces, Watts host_power) {
  if (pieces.empty()) return Error::invalid("no choice of speed is given");
  double shortest = pieces.front().time.value;
  for (const PieceCost& piece : pieces) {
    const bool sound = std::isfinite(piece.time.value) && piece.time.value > 0 &&
                       std::isfinite(piece.energy.value) && piece.energy.value > 0;
    if (!sound) return Error::invalid("expected times and energies above 0");
    shortest = std::min(shortest, piece.time.value);
  }
  if (!(host_power.value >= 0) || !std::isfinite(host_power.value)) {
    return Error::invalid("expected a host power of at least 0");
  }
  std::vector<CurvePace> paces;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    paces.push_back({.speed = shortest / pieces[i].time.value,
                     .power = pieces[i].energy / pieces[i].time + host_power,
                     .choice = i});
  }
  std::ranges::sort(paces, [](const CurvePace& one, const CurvePace& other) {
    if (one.speed != other.speed) return one.speed < other.speed;
    return one.power < other.power;
  });
  PaceCurve curve;
  std::vector<CurvePace>& hull = curve.paces_;
  for (const CurvePace& pace : paces) {
    if (!hull.empty() && pace.speed == hull.back().speed) continue;
    // A slower pace with at least the same power has no benefit.
    while (!hull.empty() && hull.back().power >= pace.power) hull.pop_back();
    while (hull.size() > 1 &&
           slope_between(hull[hull.size() - 2], hull.back()) >= slope_between(hull.back(), pace)) {
      hull.pop_back();
    }
    hull.push_back(pace);
  }
  for (std::size_t i = 0; i + 1 < hull.size(); ++i) {
    curve.slopes_.push_back(slope_between(hull[i], hull[i + 1]));
  }
  return curve;
}

std::size_t PaceCurve::best(double weight, double value) const {
  if (weight <= 0) return paces_.size() - 1;
  const auto above = std::ranges::upper_bound(slopes_, value / weight);
  return static_cast<std::size_t>(above - slopes_.begin());
}

std::size_t PaceCurve::at_least(double speed) const {
  const auto found = std::ranges::lower_bound(paces_, speed, {}, &CurvePace::speed);
  return std::min(paces_.size() - 1, static_cast<std::size_t>(found - paces_.begin()));
}

SteadyPace steady_pace(const PaceCurve& curve, double speed) {
  constexpr double kRounding = 1e-9;
  const double least = std::min(1.0, speed);
  const std::size_t pace = curve.at_least(least * (1 - kRounding));
  const CurvePace& fast = curve.paces()[pace];
  if (pace == 0 || least <= curve.paces()[pace - 1].speed) return {fast.speed, fast.power};
  return {least, fast.power - Watts{curve.slope(pace - 1) * (fast.speed - least)}};
}

}  // namespace harpe::carbon
