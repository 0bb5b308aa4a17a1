#pragma once
/// \file
/// A job that is paced without knowing how long it is: a training that ends when its loss is good,
/// or when its owner says so.
///
/// There is no deadline to plan to. Instead the job may never be further behind than
///
///     work done by time t  >=  (t - slack) / (1 + slowdown)
///
/// in seconds at the fastest pace: it runs at most so much slower as a rule, and within that may
/// put off some hours of work. Whenever it turns out to be done, it is done by
/// (1 + slowdown) work + slack. Each interval it plans the window of what is expected so that at
/// its end, and at the end of every interval in between, this holds, at the least cost. Work done
/// ahead is worth what it spares at the end of the window, so a window should reach over the days
/// that can be forecast into those of which only the usual is known.
///
/// A plan that falls behind within the window is made again up to there, until none does: each
/// round ends earlier, and the first interval is decided by the first place that binds.
///
/// What became of a job may be known otherwise: it was stored, or measured (`resume`). One that is
/// further behind than it may be, since less was done than planned, runs as fast as it can until it
/// is not.
///
/// A value; pure and deterministic. O(plan_pacing) for each round, of which there are as many as
/// there are places that bind, mostly one or two.

#include <span>

#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe::carbon {

struct OpenEndedTerms {
  double slowdown = 0.1;  ///< from 0
  Seconds slack{};        ///< from 0; without any it cannot pause before it is ahead
  PauseTerms pause{};
  double held_cost = 0;  ///< as in PacingJob
};

/// What has become of such a job so far.
struct OpenEndedPast {
  double done = 0;  ///< work, in seconds at the fastest pace
  Seconds elapsed{};
  PacingState state{};
};

class OpenEndedJob {
 public:
  OpenEndedJob(PaceCurve curve, const OpenEndedTerms& terms);

  /// What the next interval is to be.
  /// \param expected  of the intervals from now on, at least one; such as a week of them
  PacedInterval decide(std::span<const PacingInterval> expected) const;
  /// The same with what is planned after it, up to the first place that binds or all of them.
  /// Never empty; where nothing has to be done up to there, it idles.
  PacingPlan plan(std::span<const PacingInterval> expected) const;
  /// What it was.
  void take(const PacedInterval& paced, Seconds duration);
  void resume(const OpenEndedPast& past);

  /// Work that must be done by then, from its start.
  double required(Seconds elapsed) const;
  /// As PacedJob's; its work is of no meaning.
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
