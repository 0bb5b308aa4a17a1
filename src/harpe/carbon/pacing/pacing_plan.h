#pragma once
/// \file
/// How fast a job runs in each coming interval, so that all its work is done by a deadline at the
/// least cost, where a joule costs differently from interval to interval: grams of CO2, or money.
///
/// The model. In interval i a joule costs w_i. A running job chooses a point of its PaceCurve, or a
/// mixture of two that are neighbours; a paused one draws idle power. To stop takes some seconds of
/// the first interval that is paused (a checkpoint is written), to start some of the first that
/// runs; both at the power of the slowest pace, without work. A job that runs or pauses does so for
/// a least time. What is held costs so much a second until the job is through, at any pace.
///
/// The method. With a price on work (Lagrange), intervals decide by themselves but for what
/// stopping and starting tie together, which is a shortest path over intervals x (running or
/// paused, for how long). The lowest price whose path does all the work is found by bisection; with
/// that path's pauses fixed, the paces are those of the linear programme, exactly: speed is bought
/// where a unit of it is cheapest. The best price also proves a lower bound on the cost of every
/// plan. Without pauses the problem is that linear programme, and plan and bound are the same.
///
/// Pure, deterministic. O(intervals x dwell intervals x log paces) for each of some 60 prices.

#include <optional>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/carbon/pacing/pace_curve.h"

namespace harpe::carbon {

struct PacingInterval {
  Seconds duration{};
  double weight = 0;  ///< of a joule; may be 0 or negative
};

struct PauseTerms {
  bool allowed = false;
  Watts idle_power{};  ///< of what is held while the job pauses
  Seconds stop{}, start{};
  Seconds min_dwell{};  ///< in which a job that has stopped does not start, and the reverse
};

struct PacingJob {
  double work = 0;  ///< left, in seconds at the fastest pace
  PauseTerms pause{};
  double held_cost = 0;  ///< a second, in the unit of weight x joules: embodied carbon, rent
};

struct PacingState {
  bool is_paused = false;
  /// For how long; none: for ever. A job that has not begun starts for nothing at once, and later
  /// like one that was stopped.
  std::optional<Seconds> since{};
  bool has_begun = false;
};

/// What happens in one interval: it stops or starts, runs at a pace, and idles for what is left of
/// it, or is through. Where it `idles_first`, it starts after that.
struct PacedInterval {
  bool runs = false;
  Seconds lost{};           ///< to stop or to start
  std::size_t pace = 0;     ///< position in the curve
  double faster_share = 0;  ///< of `run`, at the next faster pace
  Seconds run{};            ///< at these paces
  bool idles_first = false;
  bool ends = false;  ///< the job is through then: what is left of the interval is not its own
};

struct PacingPlan {
  std::vector<PacedInterval> intervals{};  ///< to the end of the job, or of all intervals
  bool finishes = false;                   ///< by the end of the intervals
  double cost = 0;
  double lower_bound = 0;  ///< of every plan that finishes, for these weights
};

enum class PacingEffort : unsigned char {
  kThorough,  ///< for a plan that is kept
  kSearched,  ///< a tenth of that: the next hour plans again
  kQuick,     ///< takes what the price chose
};
/// Of a plan that the next interval makes again: up to 60 intervals it is searched for, beyond that
/// the price's own is as good.
PacingEffort replanning_effort(std::size_t intervals);

/// Where no plan finishes, the one that runs at the fastest pace throughout.
PacingPlan plan_pacing(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                       std::span<const PacingInterval> intervals,
                       PacingEffort effort = PacingEffort::kThorough);

/// Of one interval of a plan.
struct IntervalUse {
  Joules energy{};
  double work = 0;
  Seconds time{};  ///< until the job is through
};
IntervalUse use_of(const PaceCurve& curve, const PacingJob& job, const PacedInterval& paced,
                   Seconds duration);

/// The state after it.
PacingState after(const PacingState& state, const PacedInterval& paced, Seconds duration);

}  // namespace harpe::carbon
