#pragma once
/// \file
/// A job that is paced, hour by hour: plans by what is expected, again before each interval, and a
/// guard that bounds what trusting a forecast can cost.
///
/// The guard compares with a job that runs at one pace from its start, the one of least energy that
/// meets the deadline. So far that job has spent S and the paced one C, which is behind by some
/// work (or ahead). What is missing may have to be made up when a joule is dearest: at `highest`.
/// The guard lets an interval pause, or run slower, only where afterwards
///
///     C + highest x (joules to make up for what is missing) <= (1 + ratio) S + ratio x R
///
/// with R what the static job still spends at least, at `lowest`. To run on at the static pace
/// keeps this true, so it is always true: the job ends at most `ratio` above the static one,
/// whatever was forecast, as long as weights stay within [lowest, highest] and an interval's within
/// the range that was given for it. That is dear: what is missing is never all made up at the
/// highest weight.
///
/// **A guard by outlooks** costs far less and promises less. An outlook is one way in which the
/// weights to come may turn out, such as the forecast with the errors of an earlier one. An
/// interval may pause, or run slower than the static job, only where the job could go on to the
/// end, by the plan as it stands or at the static pace, and end above (1 + ratio) of the static job
/// in at most `guard_share` of the outlooks. What makes hours dirty makes them dirty for both jobs,
/// so only differences count. It bounds what is at risk with each decision as far as errors are
/// like earlier ones; later decisions add theirs.
///
/// Compare online conversion with switching costs (Lechowicz et
/// al., SIGMETRICS 2024), where static is the robust decision and the plan the advice.
///
/// A value; pure and deterministic.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe::carbon {

struct WeightRange {
  double lowest = 0, highest = 0;
};

struct PacedJobTerms {
  Seconds deadline{};  ///< from the start of the job
  /// Of the run time left that may be lost by what no plan knows, such as slow iterations: a plan
  /// keeps so much in reserve. A fraction, from 0.
  double reserve = 0;
  /// How far above the static job it may end, a fraction above 0; none: no guard.
  std::optional<double> guard{};
  /// Of outlooks, those in which it may end above that.
  double guard_share = 0.01;
};

/// What has become of a job so far.
struct PacedJobPast {
  double work_left = 0;
  Seconds elapsed{};
  PacingState state{};
  double spent = 0, static_spent = 0;  ///< by it and by the static job
};

/// Weights of the intervals to come, from the next one on.
using WeightOutlook = std::vector<double>;

class PacedJob {
 public:
  static constexpr std::size_t kFewestOutlooks = 20;

  /// \param job  all of its work
  PacedJob(PaceCurve curve, const PacingJob& job, const PacedJobTerms& terms);

  /// What the next interval is to be. Nothing where the job is through.
  /// \param expected  of all intervals from now to the deadline or beyond it
  /// \param next      within which the next one's weight is believed to be
  /// \param ever      within which those of all intervals of the job are
  std::optional<PacedInterval> decide(std::span<const PacingInterval> expected,
                                      const WeightRange& next, const WeightRange& ever) const;
  /// The same with what is planned after it, which is nothing where the guard objects.
  std::optional<PacingPlan> plan(std::span<const PacingInterval> expected, const WeightRange& next,
                                 const WeightRange& ever) const;
  /// The same, with a guard by outlooks. With fewer than kFewestOutlooks it trusts none.
  /// \param outlooks  each at least as long as the intervals from now to the deadline
  std::optional<PacedInterval> decide(std::span<const PacingInterval> expected,
                                      std::span<const WeightOutlook> outlooks) const;
  std::optional<PacingPlan> plan(std::span<const PacingInterval> expected,
                                 std::span<const WeightOutlook> outlooks) const;
  /// What it was, and what a joule cost in it.
  void take(const PacedInterval& paced, Seconds duration, double weight);
  /// What it was as measured: `work_left` and `state` are to be set by `resume` then.
  void take_measured(const IntervalUse& measured, Seconds duration, double weight);
  /// A job of which the past is known otherwise: it was stored, or measured.
  void resume(const PacedJobPast& past);
  PacedJobPast past() const;

  const PaceCurve& curve() const { return curve_; }
  const PacingState& state() const { return state_; }
  double work_left() const { return job_.work; }
  Seconds elapsed() const { return elapsed_; }
  /// Speed of the static job.
  double static_speed() const { return static_speed_; }

 private:
  struct Advice {
    std::vector<PacingInterval> until{};  ///< the deadline
    PacingJob job{};                      ///< with its reserve
    PacingPlan plan{};
  };
  std::optional<Advice> advice(std::span<const PacingInterval> expected) const;
  /// At the static pace, or as much faster as the deadline asks.
  PacedInterval steadily(const Advice& advice) const;
  bool is_safe(const Advice& advice, std::span<const WeightOutlook> outlooks) const;
  std::vector<IntervalUse> uses_of_plan(const Advice& advice) const;
  std::vector<IntervalUse> uses_when_steady(const Advice& advice) const;
  std::vector<IntervalUse> uses_of_static(const Advice& advice) const;

  PacedInterval at_pace(double speed, Seconds duration) const;
  bool is_guarded(const PacedInterval& paced, Seconds duration, const WeightRange& next,
                  const WeightRange& ever) const;
  double cost_to_make_up(double work, Seconds from, const WeightRange& ever) const;
  IntervalUse static_use(Seconds duration) const;

  PaceCurve curve_;
  PacingJob job_;  ///< its work is what is left
  PacedJobTerms terms_;
  PacingState state_;
  Seconds elapsed_{};
  double work_ = 0;  ///< all of it
  double static_speed_ = 1;
  Watts static_power_{};
  double spent_ = 0, static_spent_ = 0;  ///< so far
};

}  // namespace harpe::carbon
