#include "harpe/training/carbon_control/steady_choice.h"

#include <algorithm>
#include <cstddef>

namespace harpe {
namespace {

/// Grams of so much work at one pace, hour by hour; after the last interval as in it.
double grams_at(const SteadyPace& pace, double work, const PacingJob& job,
                const std::vector<PacingInterval>& intervals) {
  double time = work / pace.speed, grams = job.held_cost * time;
  for (std::size_t i = 0; i < intervals.size() && time > 0; ++i) {
    const bool is_last = i + 1 == intervals.size();
    const double part = is_last ? time : std::min(time, intervals[i].duration.value);
    grams += intervals[i].weight * pace.power.value * part;
    time -= part;
  }
  return grams;
}

}  // namespace

SteadyChoice best_steady(const PaceCurve& curve, const PacingJob& job, double needed, Seconds time,
                         const std::vector<PacingInterval>& intervals) {
  const std::vector<PacingInterval> alike{{Seconds{1}, 1}};
  const auto& hours = intervals.empty() ? alike : intervals;
  PacingJob priced = job;
  if (intervals.empty()) priced.held_cost = 0;
  const double least = time.value > 0 ? needed / time.value : 2;
  SteadyChoice best{.pace = {.speed = 1, .power = curve.fastest().power}};
  best.grams = grams_at(best.pace, job.work, priced, hours);
  const auto consider = [&](double speed) {
    SteadyChoice one{.pace = steady_pace(curve, speed)};
    one.grams = grams_at(one.pace, job.work, priced, hours);
    if (one.grams < best.grams) best = one;
  };
  if (least >= 1) return best;
  for (const CurvePace& pace : curve.paces()) {
    if (pace.speed >= least) consider(pace.speed);
  }
  if (least > curve.slowest().speed) consider(least);
  return best;
}

}  // namespace harpe
