#include "harpe/pacing/paced_job.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace harpe {
namespace {

// Up to so many intervals a plan is searched for; beyond, the price's own is as good, and the next
// interval plans again.
constexpr std::size_t kSearched = 60;
constexpr double kDone = 1e-9;

}  // namespace

PacedJob::PacedJob(PaceCurve curve, const PacingJob& job, const PacedJobTerms& terms)
    : curve_(std::move(curve)), job_(job), terms_(terms), work_(job.work) {
  const double least = std::min(1.0, job.work / terms.deadline.value);
  const std::size_t pace = curve_.at_least(least * (1 - kDone));
  static_speed_ = curve_.paces()[pace].speed;
  static_power_ = curve_.paces()[pace].power;
  if (pace > 0 && least > curve_.paces()[pace - 1].speed) {
    static_power_ -= Watts{curve_.slope(pace - 1) * (static_speed_ - least)};
    static_speed_ = least;
  }
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
  if (job_.work <= work_ * kDone || expected.empty()) return std::nullopt;
  std::vector<PacingInterval> until;
  Seconds left = terms_.deadline - elapsed_;
  for (const PacingInterval& interval : expected) {
    if (left.value <= 0) break;
    until.push_back({std::min(interval.duration, left), interval.weight});
    left -= interval.duration;
  }
  // Past its deadline it runs as fast as it can.
  if (until.empty()) until.push_back(expected.front());
  PacingJob job = job_;
  job.work *= 1 + terms_.reserve;
  const PacingEffort effort =
      until.size() <= kSearched ? PacingEffort::kSearched : PacingEffort::kQuick;
  PacingPlan made = plan_pacing(curve_, job, state_, until, effort);
  const PacedInterval& planned = made.intervals.front();
  const Seconds duration = until.front().duration;
  if (!terms_.guard || is_guarded(planned, duration, next, ever)) return made;
  // Steady, unless the deadline is missed then.
  const PacedInterval steady = at_static_pace(duration);
  const double left_then = job.work - use_of(curve_, job, steady, duration).work;
  const bool is_in_time = left_then <= (terms_.deadline - elapsed_ - duration).value;
  if (is_in_time) made.intervals = {steady};
  return made;
}

/// Of the curve; where the static job mixes two paces, the same mixture.
PacedInterval PacedJob::at_static_pace(Seconds duration) const {
  PacedInterval paced{.runs = true, .pace = curve_.at_least(static_speed_ * (1 - kDone))};
  if (paced.pace > 0 && curve_.paces()[paced.pace].speed > static_speed_ * (1 + kDone)) {
    --paced.pace;
    const double slow = curve_.paces()[paced.pace].speed;
    paced.faster_share = (static_speed_ - slow) / (curve_.paces()[paced.pace + 1].speed - slow);
  }
  if (state_.is_paused && state_.has_begun) paced.lost = std::min(job_.pause.start, duration);
  paced.run = duration - paced.lost;
  return paced;
}

IntervalUse PacedJob::static_use(Seconds duration) const {
  const Seconds end{work_ / static_speed_};
  const Seconds time = std::clamp(end - elapsed_, Seconds{0}, duration);
  return {.energy = static_power_ * time, .work = static_speed_ * time.value, .time = time};
}

/// What is behind the static job is done after its end, as far as there is time before the
/// deadline, and beyond that by running faster until then.
double PacedJob::cost_to_make_up(double work, const WeightRange& ever) const {
  if (work <= 0) return 0;
  const Seconds spare = terms_.deadline - Seconds{work_ / static_speed_};
  const double after = std::clamp(spare.value * static_speed_, 0.0, work);
  const double steady = static_power_.value / static_speed_;  // joules for a second's work
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
  if (!paced.runs) {
    missing += static_speed_ * job_.pause.start.value;
    restart = ever.highest * (curve_.slowest().power * job_.pause.start).value;
  }
  const double rest =
      (work_ - static_done) / static_speed_ * (ever.lowest * static_power_.value + job_.held_cost);
  const auto holds = [&](double weight) {
    const double spent = spent_ + weight * own.energy.value + job_.held_cost * own.time.value;
    const double static_spent =
        static_spent_ + weight * other.energy.value + job_.held_cost * other.time.value;
    return spent + cost_to_make_up(missing, ever) + restart <=
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

}  // namespace harpe
