#include "harpe/carbon/pacing/paced_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe::carbon {
namespace {

constexpr double kDone = 1e-9;

}  // namespace

PacedJob::PacedJob(PaceCurve curve, const PacingJob& job, const PacedJobTerms& terms)
    : curve_(std::move(curve)), job_(job), terms_(terms), work_(job.work) {
  const SteadyPace pace = steady_pace(curve_, job.work / terms.deadline.value);
  static_speed_ = pace.speed;
  static_power_ = pace.power;
}

std::optional<PacedJob::Advice> PacedJob::advice(std::span<const PacingInterval> expected) const {
  if (job_.work <= work_ * kDone || expected.empty()) return std::nullopt;
  Advice advice{.job = job_};
  Seconds left = terms_.deadline - elapsed_;
  for (const PacingInterval& interval : expected) {
    if (left.value <= 0) break;
    advice.until.push_back({std::min(interval.duration, left), interval.weight});
    left -= interval.duration;
  }
  // Past its deadline, the job runs as fast as it can.
  if (advice.until.empty()) advice.until.push_back(expected.front());
  advice.job.work *= 1 + terms_.reserve;
  advice.plan =
      plan_pacing(curve_, advice.job, state_, advice.until, replanning_effort(advice.until.size()));
  return advice;
}

PacedInterval PacedJob::steadily(const Advice& advice) const {
  const Seconds lost = state_.is_paused && state_.has_begun ? job_.pause.start : Seconds{0};
  const Seconds time = terms_.deadline - elapsed_ - lost;
  const double needed = time.value > 0 ? advice.job.work / time.value : 1;
  return at_pace(std::clamp(needed, static_speed_, 1.0), advice.until.front().duration);
}

std::optional<PacedInterval> PacedJob::decide(std::span<const PacingInterval> expected,
                                              const WeightRange& next,
                                              const WeightRange& ever) const {
  const std::optional<PacingPlan> made = plan(expected, next, ever);
  if (!made) return std::nullopt;
  return made->intervals.front();
}

std::optional<PacingPlan> PacedJob::plan(std::span<const PacingInterval> expected,
                                         const WeightRange& next, const WeightRange& ever) const {
  auto planned = advice(expected);
  if (!planned) return std::nullopt;
  const PacedInterval& first = planned->plan.intervals.front();
  const Seconds duration = planned->until.front().duration;
  const bool is_free = !terms_.guard || is_guarded(first, duration, next, ever);
  if (!is_free) planned->plan.intervals = {steadily(*planned)};
  return std::move(planned->plan);
}

std::optional<PacedInterval> PacedJob::decide(std::span<const PacingInterval> expected,
                                              std::span<const WeightOutlook> outlooks) const {
  const std::optional<PacingPlan> made = plan(expected, outlooks);
  if (!made) return std::nullopt;
  return made->intervals.front();
}

std::optional<PacingPlan> PacedJob::plan(std::span<const PacingInterval> expected,
                                         std::span<const WeightOutlook> outlooks) const {
  auto planned = advice(expected);
  if (!planned) return std::nullopt;
  const bool is_free = !terms_.guard || is_safe(*planned, outlooks);
  if (!is_free) planned->plan.intervals = {steadily(*planned)};
  return std::move(planned->plan);
}

std::vector<IntervalUse> PacedJob::uses_of_plan(const Advice& advice) const {
  std::vector<IntervalUse> uses;
  for (std::size_t i = 0; i < advice.plan.intervals.size(); ++i) {
    uses.push_back(use_of(curve_, advice.job, advice.plan.intervals[i], advice.until[i].duration));
  }
  return uses;
}

/// Returns the use of the first interval as planned, and of a run to the end without a pause, at
/// the static pace or as fast as the deadline needs.
std::vector<IntervalUse> PacedJob::uses_when_steady(const Advice& advice) const {
  const PacedInterval& first = advice.plan.intervals.front();
  const Seconds duration = advice.until.front().duration;
  std::vector<IntervalUse> uses{use_of(curve_, advice.job, first, duration)};
  double left = advice.job.work - uses.front().work;
  Seconds time = terms_.deadline - elapsed_ - duration, lost{};
  if (!first.runs) lost = job_.pause.start;
  const SteadyPace pace =
      steady_pace(curve_, std::max(static_speed_, left / std::max(1e-9, (time - lost).value)));
  for (std::size_t i = 1; i < advice.until.size() && left > work_ * kDone; ++i) {
    const Seconds start = std::min(lost, advice.until[i].duration);
    const Seconds run = std::min(advice.until[i].duration - start, Seconds{left / pace.speed});
    uses.push_back({.energy = curve_.slowest().power * start + pace.power * run,
                    .work = pace.speed * run.value,
                    .time = start + run});
    lost -= start;
    left -= uses.back().work;
  }
  return uses;
}

std::vector<IntervalUse> PacedJob::uses_of_static(const Advice& advice) const {
  std::vector<IntervalUse> uses;
  Seconds from = elapsed_;
  for (const PacingInterval& interval : advice.until) {
    const Seconds end{work_ / static_speed_};
    const Seconds time = std::clamp(end - from, Seconds{0}, interval.duration);
    uses.push_back({.energy = static_power_ * time, .time = time});
    from += interval.duration;
  }
  return uses;
}

bool PacedJob::is_safe(const Advice& advice, std::span<const WeightOutlook> outlooks) const {
  const PacedInterval& first = advice.plan.intervals.front();
  const Seconds duration = advice.until.front().duration;
  const double steady = use_of(curve_, job_, at_pace(static_speed_, duration), duration).work;
  const double own = use_of(curve_, job_, first, duration).work;
  if (own >= std::min(steady, job_.work) * (1 - kDone)) return true;
  if (outlooks.size() < kFewestOutlooks) return false;
  const std::vector<IntervalUse> other = uses_of_static(advice);
  const auto spend = [&](const std::vector<IntervalUse>& uses, const WeightOutlook& weights) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min(uses.size(), weights.size()); ++i) {
      sum += weights[i] * uses[i].energy.value + job_.held_cost * uses[i].time.value;
    }
    return sum;
  };
  const auto holds = [&](const std::vector<IntervalUse>& uses) {
    const auto above = std::ranges::count_if(outlooks, [&](const WeightOutlook& weights) {
      const double steadily = static_spent_ + spend(other, weights);
      return spent_ + spend(uses, weights) > steadily + *terms_.guard * std::abs(steadily);
    });
    return static_cast<double>(above) <= terms_.guard_share * static_cast<double>(outlooks.size());
  };
  return holds(uses_of_plan(advice)) || holds(uses_when_steady(advice));
}

/// Returns an interval at a speed, possibly a mixture of two paces. It ends with the job's work.
PacedInterval PacedJob::at_pace(double speed, Seconds duration) const {
  PacedInterval paced{.runs = true, .pace = curve_.at_least(speed * (1 - kDone))};
  if (paced.pace > 0 && curve_.paces()[paced.pace].speed > speed * (1 + kDone)) {
    --paced.pace;
    const double slow = curve_.paces()[paced.pace].speed;
    paced.faster_share = (speed - slow) / (curve_.paces()[paced.pace + 1].speed - slow);
  }
  if (state_.is_paused && state_.has_begun) paced.lost = std::min(job_.pause.start, duration);
  paced.run = duration - paced.lost;
  if (const Seconds needed{job_.work / speed}; needed < paced.run) {
    paced.run = needed;
    paced.ends = true;
  }
  return paced;
}

IntervalUse PacedJob::static_use(Seconds duration) const {
  const Seconds end{work_ / static_speed_};
  const Seconds time = std::clamp(end - elapsed_, Seconds{0}, duration);
  return {.energy = static_power_ * time, .work = static_speed_ * time.value, .time = time};
}

/// Returns the cost of catching up with the static job: after the end of that job as far as time
/// remains before the deadline, else by running faster until the deadline.
/// \param from  earliest time at which the job continues
double PacedJob::cost_to_make_up(double work, Seconds from, const WeightRange& ever) const {
  if (work <= 0) return 0;
  const Seconds spare = terms_.deadline - std::max(from, Seconds{work_ / static_speed_});
  const double after = std::clamp(spare.value * static_speed_, 0.0, work);
  const double steady = static_power_.value / static_speed_;  // joules per second of work
  const bool can_be_faster = curve_.fastest().speed > static_speed_;
  const double faster =
      can_be_faster ? (curve_.fastest().power - static_power_).value / (1 - static_speed_) : steady;
  return ever.highest * (steady * after + std::max(steady, faster) * (work - after)) +
         job_.held_cost * after / static_speed_;
}

bool PacedJob::is_guarded(const PacedInterval& paced, Seconds duration, const WeightRange& next,
                          const WeightRange& ever) const {
  const double ratio = *terms_.guard;
  const IntervalUse own = use_of(curve_, job_, paced, duration);
  const IntervalUse other = static_use(duration);
  const double static_done = std::min(work_, static_speed_ * (elapsed_ + other.time).value);
  double missing = static_done - (work_ - job_.work + own.work);
  double restart = 0;
  Seconds from = elapsed_ + duration;
  if (!paced.runs) {
    from += job_.pause.start;
    missing += static_speed_ * job_.pause.start.value;
    restart = ever.highest * (curve_.slowest().power * job_.pause.start).value;
  }
  const double rest =
      (work_ - static_done) / static_speed_ * (ever.lowest * static_power_.value + job_.held_cost);
  const auto holds = [&](double weight) {
    const double spent = spent_ + weight * own.energy.value + job_.held_cost * own.time.value;
    const double static_spent =
        static_spent_ + weight * other.energy.value + job_.held_cost * other.time.value;
    return spent + cost_to_make_up(missing, from, ever) + restart <=
           (1 + ratio) * static_spent + ratio * rest;
  };
  return holds(next.lowest) && holds(next.highest);
}

void PacedJob::take(const PacedInterval& paced, Seconds duration, double weight) {
  take_measured(use_of(curve_, job_, paced, duration), duration, weight);
  state_ = after(state_, paced, duration);
}

void PacedJob::take_measured(const IntervalUse& own, Seconds duration, double weight) {
  const IntervalUse other = static_use(duration);
  spent_ += weight * own.energy.value + job_.held_cost * own.time.value;
  static_spent_ += weight * other.energy.value + job_.held_cost * other.time.value;
  job_.work = std::max(0.0, job_.work - own.work);
  elapsed_ += duration;
}

void PacedJob::resume(const PacedJobPast& past) {
  job_.work = past.work_left;
  elapsed_ = past.elapsed;
  state_ = past.state;
  spent_ = past.spent;
  static_spent_ = past.static_spent;
}

PacedJobPast PacedJob::past() const {
  return {.work_left = job_.work,
          .elapsed = elapsed_,
          .state = state_,
          .spent = spent_,
          .static_spent = static_spent_};
}

}  // namespace harpe::carbon
