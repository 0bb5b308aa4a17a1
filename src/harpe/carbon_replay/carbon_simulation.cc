#include "harpe/carbon_replay/carbon_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
// Work that is left by rounding alone.
constexpr double kDone = 1e-6;  // s
// By which intensities may leave what the last weeks had been through.
constexpr double kMargin = 1.05;

void add(WayOutcome& outcome, const IntervalUse& use, double grams_per_joule, double embodied) {
  outcome.energy += use.energy;
  outcome.time += use.time;
  outcome.grams += use.energy.value * grams_per_joule + embodied * use.time.value;
}

}  // namespace

CarbonSimulation::CarbonSimulation(CarbonJob job, PaceCurve curve, const IntensitySeries& series,
                                   const ForecastTable& forecasts)
    : job_(std::move(job)),
      curve_(std::move(curve)),
      pacing_{.work = job_.work.value, .pause = job_.pause, .held_cost = job_.embodied},
      series_(&series),
      forecasts_(&forecasts),
      step_{static_cast<double>(series.step.count())},
      deadline_{job_.work * job_.deadline_factor},
      count_(static_cast<std::size_t>(std::ceil(deadline_ / step_ - kDone))) {}

Result<CarbonSimulation> CarbonSimulation::make(CarbonJob job, const IntensitySeries& series,
                                                const ForecastTable& forecasts) {
  PaceCurve curve = HARPE_TRY(PaceCurve::make(job.choices, job.host_power));
  if (!(job.work.value > 0) || !(job.deadline_factor >= 1) ||
      !std::isfinite(job.work.value * job.deadline_factor)) {
    return Error::invalid("expected hours of work above 0 and a deadline factor of at least 1");
  }
  CarbonSimulation simulation(std::move(job), std::move(curve), series, forecasts);
  if (simulation.count_ > series.size()) {
    return Error::invalid("the job's deadline is longer than the series");
  }
  return simulation;
}

std::size_t CarbonSimulation::starts() const {
  return series_->size() - count_ + 1;
}

/// Those that are left until the deadline.
std::vector<PacingInterval> CarbonSimulation::intervals(std::size_t start, Seconds from,
                                                        std::size_t issue,
                                                        bool with_hindsight) const {
  std::vector<PacingInterval> intervals;
  for (std::size_t i = issue; i < start + count_; ++i) {
    const Seconds left = deadline_ - from - step_ * static_cast<double>(i - issue);
    const double grams = with_hindsight ? series_->values[i] : forecasts_->at(issue, i);
    intervals.push_back({std::min(step_, left), grams / kJoulesPerKwh});
  }
  return intervals;
}

WayOutcome CarbonSimulation::constant(std::size_t start, Watts power, double speed) const {
  WayOutcome outcome;
  Seconds left = job_.work / speed;
  outcome.in_time = left.value <= deadline_.value * (1 + 1e-9);
  for (std::size_t i = start; left.value > kDone && i < series_->size(); ++i) {
    const Seconds time = std::min(step_, left);
    add(outcome, {.energy = power * time, .time = time}, series_->values[i] / kJoulesPerKwh,
        job_.embodied);
    left -= time;
  }
  return outcome;
}

/// A pace of the curve, or the mixture of two that is through at the deadline.
WayOutcome CarbonSimulation::best_static(std::size_t start) const {
  const double least = job_.work / deadline_;
  const std::size_t first = curve_.at_least(least * (1 - 1e-12));
  WayOutcome best = constant(start, curve_.fastest().power, 1);
  const auto consider = [&](Watts power, double speed) {
    const WayOutcome outcome = constant(start, power, speed);
    if (outcome.grams < best.grams) best = outcome;
  };
  for (std::size_t i = first; i < curve_.paces().size(); ++i) {
    consider(curve_.paces()[i].power, curve_.paces()[i].speed);
  }
  if (first > 0) {
    const CurvePace& slow = curve_.paces()[first - 1];
    consider(slow.power + Watts{curve_.slope(first - 1) * (least - slow.speed)}, least);
  }
  return best;
}

WayOutcome CarbonSimulation::by_chase(std::size_t start) const {
  WayOutcome outcome;
  double left = job_.work.value;
  double shortest = job_.choices.front().time.value;
  for (const PieceCost& piece : job_.choices) shortest = std::min(shortest, piece.time.value);
  for (std::size_t i = start; left > kDone && i < series_->size(); ++i) {
    const PieceCost& piece =
        job_.choices[chase_choice(job_.choices, forecasts_->at(i, i), job_.chase)];
    const double speed = shortest / piece.time.value;
    const Seconds time = std::min(step_, Seconds{left / speed});
    add(outcome, {.energy = (piece.energy / piece.time + job_.host_power) * time, .time = time},
        series_->values[i] / kJoulesPerKwh, job_.embodied);
    left -= speed * time.value;
  }
  outcome.in_time = left <= kDone && outcome.time.value <= deadline_.value * (1 + 1e-9);
  return outcome;
}

WayOutcome CarbonSimulation::by_forecast(std::size_t start) const {
  WayOutcome outcome;
  PacedJob paced_job(curve_, pacing_, {.deadline = deadline_, .guard = job_.guard});
  for (std::size_t i = start; i < start + count_; ++i) {
    const auto expected = intervals(start, paced_job.elapsed(), i, false);
    const RecentIntensity& recent = forecasts_->recent(i);
    const double last = recent.last / kJoulesPerKwh, change = recent.change * kMargin;
    const WeightRange ever{recent.lowest / kMargin / kJoulesPerKwh,
                           recent.highest * kMargin / kJoulesPerKwh};
    const auto paced =
        paced_job.decide(expected, {last * std::max(0.0, 1 - change), last * (1 + change)}, ever);
    if (!paced) break;
    const bool was_paused = paced_job.state().is_paused;
    const Seconds duration = expected.front().duration;
    const double weight = series_->values[i] / kJoulesPerKwh;
    add(outcome, use_of(curve_, pacing_, *paced, duration), weight, job_.embodied);
    outcome.pauses += !paced->runs && !was_paused ? 1 : 0;
    paced_job.take(*paced, duration, weight);
  }
  outcome.in_time = paced_job.work_left() <= kDone * job_.work.value;
  return outcome;
}

StartOutcome CarbonSimulation::at(std::size_t start) const {
  StartOutcome outcome;
  const PieceCost* all_max = job_.all_max ? &*job_.all_max : nullptr;
  double shortest = job_.choices.front().time.value;
  for (const PieceCost& piece : job_.choices) shortest = std::min(shortest, piece.time.value);
  outcome.all_max = all_max == nullptr
                        ? constant(start, curve_.fastest().power, 1)
                        : constant(start, all_max->energy / all_max->time + job_.host_power,
                                   shortest / all_max->time.value);
  outcome.best_static = best_static(start);
  outcome.chase = by_chase(start);
  outcome.harpe = by_forecast(start);
  const auto known = intervals(start, {0}, start, true);
  const PacingPlan plan = plan_pacing(curve_, pacing_, {}, known);
  outcome.bound = plan.lower_bound;
  outcome.hindsight.in_time = plan.finishes;
  bool was_paused = false;
  for (std::size_t i = 0; i < plan.intervals.size(); ++i) {
    add(outcome.hindsight, use_of(curve_, pacing_, plan.intervals[i], known[i].duration),
        known[i].weight, job_.embodied);
    outcome.hindsight.pauses += !plan.intervals[i].runs && !was_paused ? 1 : 0;
    was_paused = !plan.intervals[i].runs;
  }
  return outcome;
}

}  // namespace harpe
