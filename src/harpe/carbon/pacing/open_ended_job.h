#pragma once
/// \file
/// A paced job of unknown length: a training that ends when its loss is good enough, or when its
/// owner ends it.
///
/// There is no deadline. Instead, the job must always keep
///
///     work done by time t  >=  (t - slack) / (1 + slowdown)
///
/// in seconds at the fastest pace: its average slowdown is limited, and within the slack it may put
/// off some hours of work. Whenever the job turns out to be finished, it finishes within (1 +
/// slowdown) work + slack. For each interval, the job plans a window of expected intervals at the
/// least cost so that the condition holds at the end of every interval in it. Work done ahead is
/// worth its saving at the end of the window, so a window should extend from the days of the
/// forecast into days for which only typical values are known.
///
/// If a plan falls behind within the window, the job plans again up to that interval, until no plan
/// falls behind: each round ends earlier, and the first binding interval determines the next one.
///
/// The past of a job may be restored from a store or from measurements (`resume`). If less was done
/// than planned and the job is further behind than allowed, it runs as fast as it can until it has
/// caught up.
///
/// A value; pure and deterministic. O(plan_pacing) for each round; there is one round for each
/// binding interval, mostly one or two.

#include <span>

#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe::carbon {

struct OpenEndedTerms {
  double slowdown = 0.1;  ///< from 0
  Seconds slack{};        ///< from 0; with 0 it cannot pause before it is ahead
  PauseTerms pause{};
  double held_cost = 0;  ///< as in PacingJob
};

/// The past of an open-ended job.
struct OpenEndedPast {
  double done = 0;  ///< work, in seconds at the fastest pace
  Seconds elapsed{};
  PacingState state{};
};

class OpenEndedJob {
 public:
  OpenEndedJob(PaceCurve curve, const OpenEndedTerms& terms);

  /// Returns the next interval.
  /// \param expected  the intervals from now on, at least one, such as a week of them
  PacedInterval decide(std::span<const PacingInterval> expected) const;
  /// Returns the next interval and the planned ones after it, up to the first binding interval or
  /// the end of the window. Never empty; if no work is required up to there, the job idles.
  PacingPlan plan(std::span<const PacingInterval> expected) const;
  /// Records an interval.
  void take(const PacedInterval& paced, Seconds duration);
  void resume(const OpenEndedPast& past);

  /// Returns the work that must be done after `elapsed` from the start.
  double required(Seconds elapsed) const;
  /// As in PacedJob, except that its `work` is meaningless.
  const PacingJob& terms() const { return job_; }
  const PaceCurve& curve() const { return curve_; }
  const PacingState& state() const { return state_; }
  double done() const { return done_; }
  Seconds elapsed() const { return elapsed_; }

 private:
  std::span<const PacingInterval> until_first_behind(std::span<const PacingInterval> window,
                                                     const PacingPlan& plan) const;
  bool may_pause(Seconds duration) const;

  PaceCurve curve_;
  OpenEndedTerms terms_;
  PacingJob job_;
  PacingState state_;
  double done_ = 0;
  Seconds elapsed_{};
};

}  // namespace harpe::carbon
