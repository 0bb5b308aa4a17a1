#include "harpe/carbon/pacing/open_ended_job.h"

#include <algorithm>
#include <utility>

namespace harpe::carbon {
namespace {

constexpr double kTooLittle = 1e-6;  // s of work

Seconds length_of(std::span<const PacingInterval> intervals) {
  Seconds length{};
  for (const PacingInterval& interval : intervals) length += interval.duration;
  return length;
}

}  // namespace

OpenEndedJob::OpenEndedJob(PaceCurve curve, const OpenEndedTerms& terms)
    : curve_(std::move(curve)),
      terms_(terms),
      job_{.pause = terms.pause, .held_cost = terms.held_cost} {}

double OpenEndedJob::required(Seconds elapsed) const {
  return std::max(0.0, (elapsed - terms_.slack).value / (1 + terms_.slowdown));
}

PacedInterval OpenEndedJob::decide(std::span<const PacingInterval> expected) const {
  return plan(expected).intervals.front();
}

PacingPlan OpenEndedJob::plan(std::span<const PacingInterval> expected) const {
  std::span<const PacingInterval> window = expected;
  PacingPlan plan;
  for (;;) {
    PacingJob job = job_;
    job.work = required(elapsed_ + length_of(window)) - done_;
    plan = {.finishes = true};
    if (job.work > kTooLittle) {
      plan = plan_pacing(curve_, job, state_, window, replanning_effort(window.size()));
    }
    const auto shorter = until_first_behind(window, plan);
    if (shorter.size() == window.size()) break;
    window = shorter;
  }
  const Seconds duration = expected.front().duration;
  if (plan.intervals.empty()) {
    plan.intervals.push_back({.lost = state_.is_paused ? Seconds{0} : job_.pause.stop});
  }
  PacedInterval& first = plan.intervals.front();
  if (!first.runs && !may_pause(duration)) {
    first = {.runs = true};
    if (state_.is_paused && state_.has_begun) first.lost = job_.pause.start;
  }
  first.lost = std::min(first.lost, duration);
  // A plan ends with its window, but the job continues.
  if (first.runs) first.run = duration - first.lost;
  first.ends = first.idles_first = false;
  return plan;
}

/// Returns the window up to the first interval at whose end the plan is behind, or all of it.
std::span<const PacingInterval> OpenEndedJob::until_first_behind(
    std::span<const PacingInterval> window, const PacingPlan& plan) const {
  double done = done_;
  Seconds end = elapsed_;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (i < plan.intervals.size()) {
      done += use_of(curve_, job_, plan.intervals[i], window[i].duration).work;
    }
    end += window[i].duration;
    if (done < required(end) - kTooLittle) return window.first(i + 1);
  }
  return window;
}

/// Returns true if the job keeps up when it pauses and starts again as soon as it may.
bool OpenEndedJob::may_pause(Seconds duration) const {
  if (!job_.pause.allowed) return false;
  Seconds pause = std::max(duration, job_.pause.min_dwell);
  if (state_.is_paused && state_.since) {
    pause = std::max(duration, job_.pause.min_dwell - *state_.since);
  }
  const double next = (duration - job_.pause.start).value;
  return done_ + next >= required(elapsed_ + pause + duration);
}

void OpenEndedJob::resume(const OpenEndedPast& past) {
  done_ = past.done;
  elapsed_ = past.elapsed;
  state_ = past.state;
}

void OpenEndedJob::take(const PacedInterval& paced, Seconds duration) {
  done_ += use_of(curve_, job_, paced, duration).work;
  elapsed_ += duration;
  state_ = after(state_, paced, duration);
}

}  // namespace harpe::carbon
