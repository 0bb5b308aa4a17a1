#include "harpe/lab/carbon_replay/carbon_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/carbon/pacing/open_ended_job.h"

namespace harpe::lab {
namespace {

// Time that a job of unknown length looks ahead: the forecast days, and as many usual ones.
constexpr Seconds kWindow{8 * 86400.0};
// Less remaining work than this is due to rounding.
constexpr double kDone = 1e-6;  // s
// Factor by which intensities can leave the range of the last weeks.
constexpr double kMargin = 1.05;

double shortest_time(const carbon::PieceCost& piece) {
  return piece.time.value;
}

void add(WayOutcome& outcome, const carbon::IntervalUse& use, double grams_per_joule,
         double embodied) {
  outcome.energy += use.energy;
  outcome.time += use.time;
  outcome.grams += use.energy.value * grams_per_joule + embodied * use.time.value;
}

}  // namespace

CarbonSimulation::CarbonSimulation(CarbonJob job, carbon::PaceCurve curve,
                                   const carbon::IntensitySeries& series,
                                   const ForecastTable* forecasts)
    : job_(std::move(job)),
      curve_(std::move(curve)),
      pacing_{.work = job_.work.value, .pause = job_.pause, .held_cost = job_.embodied},
      series_(&series),
      forecasts_(forecasts),
      step_{static_cast<double>(series.step.count())},
      deadline_{job_.work * job_.deadline_factor + job_.slack.value_or(Seconds{0})},
      count_(static_cast<std::size_t>(std::ceil(deadline_ / step_ - kDone))) {}

Result<CarbonSimulation> CarbonSimulation::make(CarbonJob job,
                                                const carbon::IntensitySeries& series,
                                                const ForecastTable* forecasts) {
  carbon::PaceCurve curve = HARPE_TRY(carbon::PaceCurve::make(job.choices, job.host_power));
  if (!(job.work.value > 0) || !(job.deadline_factor >= 1) ||
      !std::isfinite(job.work.value * job.deadline_factor)) {
    return Error::invalid("expected hours of work above 0 and a deadline factor of at least 1");
  }
  if (job.slack && job.guard) return Error::invalid("a guard needs a deadline");
  CarbonSimulation simulation(std::move(job), std::move(curve), series, forecasts);
  if (simulation.count_ > series.size()) {
    return Error::invalid("the job's deadline is longer than the series");
  }
  return simulation;
}

std::size_t CarbonSimulation::starts() const {
  return series_->size() - count_ + 1;
}

/// Returns the intervals left until the deadline.
std::vector<carbon::PacingInterval> CarbonSimulation::intervals(std::size_t start, Seconds from,
                                                                std::size_t issue,
                                                                bool with_hindsight) const {
  std::vector<carbon::PacingInterval> intervals;
  for (std::size_t i = issue; i < start + count_; ++i) {
    const Seconds left = deadline_ - from - step_ * static_cast<double>(i - issue);
    const double grams = with_hindsight ? series_->values[i] : forecasts_->at(issue, i);
    intervals.push_back({std::min(step_, left), grams / job_.unit_of_energy.value});
  }
  return intervals;
}

WayOutcome CarbonSimulation::constant(std::size_t start, Watts power, double speed) const {
  WayOutcome outcome;
  Seconds left = job_.work / speed;
  outcome.in_time = left.value <= deadline_.value * (1 + 1e-9);
  for (std::size_t i = start; left.value > kDone && i < series_->size(); ++i) {
    const Seconds time = std::min(step_, left);
    add(outcome, {.energy = power * time, .time = time},
        series_->values[i] / job_.unit_of_energy.value, job_.embodied);
    left -= time;
  }
  return outcome;
}

/// Returns the best outcome with one pace of the curve, or with the mixture of two paces that ends
/// at the deadline.
WayOutcome CarbonSimulation::best_static(std::size_t start) const {
  const double least = least_static_speed();
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
    const carbon::CurvePace& slow = curve_.paces()[first - 1];
    consider(slow.power + Watts{curve_.slope(first - 1) * (least - slow.speed)}, least);
  }
  return best;
}

WayOutcome CarbonSimulation::by_chase(std::size_t start) const {
  WayOutcome outcome;
  double left = job_.work.value;
  const double shortest = std::ranges::min(job_.choices, {}, shortest_time).time.value;
  for (std::size_t i = start; left > kDone && i < series_->size(); ++i) {
    const carbon::PieceCost& piece =
        job_.choices[chase_choice(job_.choices, forecasts_->at(i, i), job_.chase)];
    const double speed = shortest / piece.time.value;
    const Seconds time = std::min(step_, Seconds{left / speed});
    add(outcome, {.energy = (piece.energy / piece.time + job_.host_power) * time, .time = time},
        series_->values[i] / job_.unit_of_energy.value, job_.embodied);
    left -= speed * time.value;
  }
  outcome.in_time = left <= kDone && outcome.time.value <= deadline_.value * (1 + 1e-9);
  return outcome;
}

/// Returns the outcome of one choice for the whole job: with hindsight the best of the choices that
/// take at most `time`, or the fastest if all take longer.
WayOutcome CarbonSimulation::static_within(std::size_t start, Seconds time) const {
  std::optional<WayOutcome> best;
  const double shortest = std::ranges::min(job_.choices, {}, shortest_time).time.value;
  for (const carbon::PieceCost& piece : job_.choices) {
    const WayOutcome outcome =
        constant(start, piece.energy / piece.time + job_.host_power, shortest / piece.time.value);
    const bool fits = outcome.time.value <= time.value * (1 + 1e-9);
    if (fits && (!best || outcome.grams < best->grams)) best = outcome;
  }
  return best.value_or(constant(start, curve_.fastest().power, 1));
}

std::optional<carbon::PacedInterval> CarbonSimulation::decision(const carbon::PacedJob& job,
                                                                std::size_t start,
                                                                std::size_t i) const {
  const auto expected = intervals(start, job.elapsed(), i, false);
  if (job_.guard && job_.guard_share > 0) {
    auto outlooks = forecasts_->outlooks(i, expected.size());
    for (carbon::WeightOutlook& outlook : outlooks) {
      for (double& weight : outlook) weight /= job_.unit_of_energy.value;
    }
    return job.decide(expected, outlooks);
  }
  const RecentIntensity& recent = forecasts_->recent(i);
  const double last = recent.last / job_.unit_of_energy.value, change = recent.change * kMargin;
  const carbon::WeightRange ever{recent.lowest / kMargin / job_.unit_of_energy.value,
                                 recent.highest * kMargin / job_.unit_of_energy.value};
  return job.decide(expected, {last * std::max(0.0, 1 - change), last * (1 + change)}, ever);
}

WayOutcome CarbonSimulation::by_forecast(std::size_t start) const {
  if (job_.slack) return open_ended(start);
  WayOutcome outcome;
  carbon::PacedJob paced_job(
      curve_, pacing_,
      {.deadline = deadline_, .guard = job_.guard, .guard_share = job_.guard_share});
  for (std::size_t i = start; i < start + count_; ++i) {
    const auto paced = decision(paced_job, start, i);
    if (!paced) break;
    const bool was_paused = paced_job.state().is_paused;
    const Seconds duration = std::min(step_, deadline_ - paced_job.elapsed());
    const double weight = series_->values[i] / job_.unit_of_energy.value;
    add(outcome, carbon::use_of(curve_, pacing_, *paced, duration), weight, job_.embodied);
    outcome.pauses += !paced->runs && !was_paused ? 1 : 0;
    paced_job.take(*paced, duration, weight);
  }
  outcome.in_time = paced_job.work_left() <= kDone * job_.work.value;
  return outcome;
}

/// Simulates a job that does not know its remaining work, and ends when the work is done.
WayOutcome CarbonSimulation::open_ended(std::size_t start) const {
  WayOutcome outcome;
  carbon::OpenEndedJob paced_job(curve_, {.slowdown = job_.deadline_factor - 1,
                                          .slack = *job_.slack,
                                          .pause = job_.pause,
                                          .held_cost = job_.embodied});
  const auto window = static_cast<std::size_t>(kWindow / step_);
  for (std::size_t i = start; i < series_->size(); ++i) {
    std::vector<carbon::PacingInterval> expected;
    for (std::size_t k = i; k < i + window; ++k) {
      expected.push_back({step_, forecasts_->at(i, k) / job_.unit_of_energy.value});
    }
    carbon::PacedInterval paced = paced_job.decide(expected);
    const double left = job_.work.value - paced_job.done();
    carbon::IntervalUse use = carbon::use_of(curve_, pacing_, paced, step_);
    const bool ends = use.work >= left;
    if (ends) {
      paced.run = paced.run * (left / use.work);
      paced.ends = true;
      use = carbon::use_of(curve_, pacing_, paced, step_);
    }
    outcome.pauses += !paced.runs && !paced_job.state().is_paused ? 1 : 0;
    add(outcome, use, series_->values[i] / job_.unit_of_energy.value, job_.embodied);
    if (ends) {
      outcome.in_time = outcome.time.value <= deadline_.value + kDone;
      return outcome;
    }
    paced_job.take(paced, step_);
  }
  return outcome;
}

ForeseenOutcome CarbonSimulation::foreseen(std::size_t start) const {
  const auto known = intervals(start, {0}, start, true);
  return {.best_static = best_static(start),
          .bound = carbon::plan_pacing(curve_, pacing_, {}, known, carbon::PacingEffort::kSearched)
                       .lower_bound};
}

StartOutcome CarbonSimulation::at(std::size_t start) const {
  StartOutcome outcome;
  const carbon::PieceCost* all_max = job_.all_max ? &*job_.all_max : nullptr;
  const double shortest = std::ranges::min(job_.choices, {}, shortest_time).time.value;
  outcome.all_max = all_max == nullptr
                        ? constant(start, curve_.fastest().power, 1)
                        : constant(start, all_max->energy / all_max->time + job_.host_power,
                                   shortest / all_max->time.value);
  const carbon::SteadyPace steady = carbon::steady_pace(curve_, least_static_speed());
  outcome.steady = constant(start, steady.power, steady.speed);
  outcome.best_static = best_static(start);
  outcome.chase = by_chase(start);
  outcome.chase_static = static_within(start, outcome.chase.time);
  outcome.harpe = by_forecast(start);
  const auto known = intervals(start, {0}, start, true);
  const carbon::PacingPlan plan = carbon::plan_pacing(curve_, pacing_, {}, known);
  outcome.bound = plan.lower_bound;
  outcome.hindsight.in_time = plan.finishes;
  bool was_paused = false;
  for (std::size_t i = 0; i < plan.intervals.size(); ++i) {
    add(outcome.hindsight, carbon::use_of(curve_, pacing_, plan.intervals[i], known[i].duration),
        known[i].weight, job_.embodied);
    outcome.hindsight.pauses += !plan.intervals[i].runs && !was_paused ? 1 : 0;
    was_paused = !plan.intervals[i].runs;
  }
  return outcome;
}

std::size_t chase_choice(std::span<const carbon::PieceCost> choices, double intensity,
                         const ChaseTerms& terms) {
  const auto cost = [&](const carbon::PieceCost& piece) {
    const double held = terms.highest_power.value * terms.highest_intensity * piece.time.value;
    return terms.eta * piece.energy.value * intensity + (1 - terms.eta) * held;
  };
  const auto best = std::ranges::min_element(choices, {}, cost);
  return static_cast<std::size_t>(best - choices.begin());
}

}  // namespace harpe::lab
