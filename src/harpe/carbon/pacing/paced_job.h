#pragma once
/// \file
/// A job that is paced hour by hour: it plans by the expected weights, plans again before each
/// interval, and has a guard that bounds the cost of trusting a forecast.
///
/// The guard compares with the static job: it runs at one pace from its start, the pace of least
/// energy that meets the deadline. So far the static job has spent S and the paced job C, and the
/// paced job is behind (or ahead) by some work. The missing work may have to be made up when a
/// joule is dearest: at `highest`. The guard accepts the planned interval only if after it
///
///     C + highest x (joules to make up the missing work) <= (1 + ratio) S + ratio x R
///
/// where R is the least that the static job still spends, at `lowest`. Running at the static pace
/// keeps this true, so it always holds: the job ends at most `ratio` above the static job, whatever
/// the forecast, if all weights stay within [lowest, highest] and an interval's weight stays within
/// the range given for it. This is expensive: missing work is never all made up at the highest
/// weight.
///
/// **A guard by outlooks** costs far less and promises less. An outlook is one possible course of
/// the coming weights, such as the forecast with the errors of an earlier one. An interval may
/// pause, or run slower than the static job, only if the job can then continue to the end, by the
/// plan or at the static pace, and ends above (1 + ratio) of the static job in at most
/// `guard_share` of the outlooks. Conditions that make hours dirty affect both jobs, so only
/// differences count. The guard bounds the risk of each decision if errors are like earlier ones;
/// later decisions add their own risk.
///
/// Compare online conversion with switching costs (Lechowicz et al., SIGMETRICS 2024), where the
/// static pace is the robust decision and the plan the advice.
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
  /// Fraction, from 0, of the remaining run time that may be lost for unplanned reasons, such as
  /// slow iterations. A plan keeps this much in reserve.
  double reserve = 0;
  /// How far above the static job it may end, a fraction above 0; nullopt for no guard.
  std::optional<double> guard{};
  /// Fraction of the outlooks in which it may end above that.
  double guard_share = 0.01;
};

/// The progress and cost of a job so far.
struct PacedJobPast {
  double work_left = 0;
  Seconds elapsed{};
  PacingState state{};
  double spent = 0, static_spent = 0;  ///< of the job and of the static job
};

/// Weights of the coming intervals, from the next one on.
using WeightOutlook = std::vector<double>;

class PacedJob {
 public:
  static constexpr std::size_t kFewestOutlooks = 20;

  /// \param job  with all of its work
  PacedJob(PaceCurve curve, const PacingJob& job, const PacedJobTerms& terms);

  /// Returns the next interval, or nullopt if the job is finished.
  /// \param expected  all intervals from now to the deadline or beyond it
  /// \param next      range in which the weight of the next interval is believed to be
  /// \param ever      range of the weights of all intervals of the job
  std::optional<PacedInterval> decide(std::span<const PacingInterval> expected,
                                      const WeightRange& next, const WeightRange& ever) const;
  /// Returns the next interval and the planned ones after it; only the next if the guard rejects
  /// the plan.
  std::optional<PacingPlan> plan(std::span<const PacingInterval> expected, const WeightRange& next,
                                 const WeightRange& ever) const;
  /// Same as above, with a guard by outlooks. With fewer than kFewestOutlooks outlooks, the guard
  /// accepts no interval that is slower than the static job.
  /// \param outlooks  each at least as long as the intervals from now to the deadline
  std::optional<PacedInterval> decide(std::span<const PacingInterval> expected,
                                      std::span<const WeightOutlook> outlooks) const;
  std::optional<PacingPlan> plan(std::span<const PacingInterval> expected,
                                 std::span<const WeightOutlook> outlooks) const;
  /// Records an interval and its weight, the cost of a joule.
  void take(const PacedInterval& paced, Seconds duration, double weight);
  /// Records an interval as measured. Does not change `state()`: set the state with `resume`.
  void take_measured(const IntervalUse& measured, Seconds duration, double weight);
  /// Restores a past that was stored or measured.
  void resume(const PacedJobPast& past);
  PacedJobPast past() const;

  const PaceCurve& curve() const { return curve_; }
  const PacingState& state() const { return state_; }
  double work_left() const { return job_.work; }
  Seconds elapsed() const { return elapsed_; }
  /// Returns the speed of the static job.
  double static_speed() const { return static_speed_; }

 private:
  struct Advice {
    std::vector<PacingInterval> until{};  ///< up to the deadline
    PacingJob job{};                      ///< with its reserve
    PacingPlan plan{};
  };
  std::optional<Advice> advice(std::span<const PacingInterval> expected) const;
  /// Returns an interval at the static pace, or at the faster pace that the deadline requires.
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
  PacingJob job_;  ///< its work is the remaining work
  PacedJobTerms terms_;
  PacingState state_;
  Seconds elapsed_{};
  double work_ = 0;  ///< the whole work
  double static_speed_ = 1;
  Watts static_power_{};
  double spent_ = 0, static_spent_ = 0;  ///< so far
};

}  // namespace harpe::carbon
