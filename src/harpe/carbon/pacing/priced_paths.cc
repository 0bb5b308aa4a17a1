#include "harpe/carbon/pacing/priced_paths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace harpe::carbon {
namespace {

// Intervals in which a job that has stopped may not start; a minimum dwell of more is of no use.
constexpr double kMostDwellIntervals = 64;

}  // namespace

PricedPaths::PricedPaths(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                         std::span<const PacingInterval> intervals)
    : curve_(curve), job_(job), state_(state), intervals_(intervals) {
  // The first and the last may be what is left of one, up to the deadline a fraction.
  const auto longest = std::ranges::max_element(
      intervals, {}, [](const PacingInterval& one) { return one.duration.value; });
  const double step = longest->duration.value;
  const double dwell = job.pause.allowed ? job.pause.min_dwell.value : 0;
  dwell_ = static_cast<std::size_t>(
      std::clamp(std::ceil(dwell / step - kWorkRounding), 1.0, kMostDwellIntervals));
  modes_ = dwell_ + 1;
  first_ = dwell_;
  if (state.since) {
    const double spent = std::floor(state.since->value / step + kWorkRounding);
    first_ = state.since->value + kWorkRounding >= dwell
                 ? dwell_
                 : static_cast<std::size_t>(std::min(spent, static_cast<double>(dwell_ - 1)));
  }
}

PricedPath PricedPaths::at(double price) {
  solve(price);
  return trace();
}

/// An interval that runs in part has a pause beside it. In it the job counts as running, and its
/// cost lies between those of a whole run and of none: the cheaper of these is no dearer.
double PricedPaths::lower_bound(double price) {
  relaxed_ = true;
  const double least = solve(price);
  relaxed_ = false;
  return least + price * job_.work;
}

Seconds PricedPaths::lost(std::size_t interval, bool was_paused, bool runs) const {
  if (was_paused == !runs) return {0};
  const bool is_first = interval == 0 && !state_.has_begun;
  const Seconds start = is_first ? Seconds{0} : job_.pause.start;
  const Seconds wanted = runs ? start : job_.pause.stop;
  return std::min(wanted, intervals_[interval].duration);
}

/// Backwards over the intervals, of all states; the least cost, work at its price taken off.
double PricedPaths::solve(double price) {
  price_ = price;
  const std::size_t states = 2 * modes_;
  actions_.assign(intervals_.size() * states, Action::kEnd);
  std::vector<double> later(states, 0), now(states, 0);
  // What it costs to pause next, of a job that runs and may; from there on.
  double pause_next = std::numeric_limits<double>::infinity();
  for (std::size_t i = intervals_.size(); i-- > 0;) {
    const std::array<double, 2> run{cost_of_run(i, false), cost_of_run(i, true)};
    const std::array<double, 2> pause{cost_of_pause(i, false), cost_of_pause(i, true)};
    for (std::size_t s = 0; s < states; ++s) {
      const bool paused = s >= modes_;
      const std::size_t spent = s % modes_;
      const bool may_change = spent >= dwell_;
      const std::size_t stays = std::min(dwell_, spent + 1);
      double best = 0;  // it ends
      Action action = Action::kEnd;
      if (!paused || may_change) {
        const double cost = run[paused ? 1 : 0] + later[state_of(false, paused ? 1 : stays)];
        if (cost <= best) {
          best = cost;
          action = Action::kRun;
        }
      }
      if (job_.pause.allowed && (paused || may_change)) {
        const double cost = pause[paused ? 1 : 0] + later[state_of(true, paused ? stays : 1)];
        if (cost < best) {
          best = cost;
          action = Action::kPause;
        }
      }
      if (relaxed_ && !paused && stays >= dwell_) {
        best = std::min(best, cost_of_idling(i) + pause_next);
      }
      now[s] = best;
      actions_[i * states + s] = action;
    }
    if (job_.pause.allowed) pause_next = pause[0] + later[state_of(true, 1)];
    std::swap(later, now);
  }
  return later[state_of(state_.is_paused, first_)];
}

double PricedPaths::cost_of_run(std::size_t i, bool was_paused) const {
  const PacingInterval& interval = intervals_[i];
  const Seconds gone = lost(i, was_paused, true);
  const Seconds left = interval.duration - gone;
  const CurvePace& pace = curve_.paces()[curve_.best(interval.weight, price_)];
  double cost = interval.weight * (pace.power * left).value - price_ * pace.speed * left.value;
  if (relaxed_ && was_paused) {
    cost = std::min(cost, interval.weight * (job_.pause.idle_power * left).value);
  }
  return cost + interval.weight * (curve_.slowest().power * gone).value +
         job_.held_cost * interval.duration.value;
}

double PricedPaths::cost_of_pause(std::size_t i, bool was_paused) const {
  const PacingInterval& interval = intervals_[i];
  const Seconds gone = lost(i, was_paused, false);
  const Joules stop = (curve_.slowest().power - job_.pause.idle_power) * gone;
  return interval.weight * stop.value + cost_of_idling(i);
}

double PricedPaths::cost_of_idling(std::size_t i) const {
  const Seconds duration = intervals_[i].duration;
  return intervals_[i].weight * (job_.pause.idle_power * duration).value +
         job_.held_cost * duration.value;
}

PricedPath PricedPaths::trace() const {
  PricedPath found;
  const std::size_t states = 2 * modes_;
  bool paused = state_.is_paused;
  std::size_t spent = first_;
  for (std::size_t i = 0; i < intervals_.size(); ++i) {
    const Action action = actions_[i * states + state_of(paused, spent)];
    if (action == Action::kEnd) break;
    const bool runs = action == Action::kRun;
    PacedInterval paced{.runs = runs, .lost = lost(i, paused, runs)};
    if (runs) {
      paced.pace = curve_.best(intervals_[i].weight, price_);
      found.work += curve_.paces()[paced.pace].speed * (intervals_[i].duration - paced.lost).value;
    }
    found.intervals.push_back(paced);
    spent = runs == !paused ? std::min(dwell_, spent + 1) : 1;
    paused = !runs;
  }
  return found;
}

}  // namespace harpe::carbon
