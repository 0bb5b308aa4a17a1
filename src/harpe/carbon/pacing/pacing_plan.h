#pragma once
/// \file
/// The pace of a job in each coming interval: all its work is done by a deadline at the least cost,
/// while the cost of a joule (grams of CO2, or money) changes from interval to interval.
///
/// The model. In interval i a joule costs w_i. A running job uses a point of its PaceCurve, or a
/// mixture of two neighbouring points; a paused job draws idle power. Stopping takes some seconds
/// of the first paused interval (a checkpoint is written), and starting some of the first running
/// interval; both at the power of the slowest pace, without work. A job runs or pauses for at least
/// a minimum time. Held resources cost a fixed amount per second until the job is finished, at any
/// pace.
///
/// The method. With a price on work (Lagrange), intervals are independent except for the cost of
/// stopping and starting, so that the problem is a shortest path over intervals x (running or
/// paused, for how long). The lowest price whose path does all the work is found by bisection. With
/// the pauses of that path fixed, the paces are the exact solution of a linear programme: speed is
/// bought where a unit of it is cheapest. The best price also proves a lower bound on the cost of
/// every plan. Without pauses, the problem is this linear programme, and plan and bound are equal.
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
  double weight = 0;  ///< cost of a joule; may be 0 or negative
};

struct PauseTerms {
  bool allowed = false;
  Watts idle_power{};  ///< of held resources while the job pauses
  Seconds stop{}, start{};
  Seconds min_dwell{};  ///< minimum time between a stop and the next start, and the reverse
};

struct PacingJob {
  double work = 0;  ///< remaining work, in seconds at the fastest pace
  PauseTerms pause{};
  double held_cost = 0;  ///< per second, in units of weight x joules: embodied carbon, rent
};

struct PacingState {
  bool is_paused = false;
  /// Time in this state; nullopt for unlimited. A job that has not begun starts free of charge in
  /// the first interval, and later like a stopped job.
  std::optional<Seconds> since{};
  bool has_begun = false;
};

/// The schedule of one interval: the job stops or starts, then runs at a pace, then idles for the
/// rest or is finished. With `idles_first`, it idles before it starts.
struct PacedInterval {
  bool runs = false;
  Seconds lost{};           ///< time to stop or to start
  std::size_t pace = 0;     ///< position in the curve
  double faster_share = 0;  ///< fraction of `run` at the next faster pace
  Seconds run{};            ///< at these paces
  bool idles_first = false;
  bool ends = false;  ///< the job finishes in it: the rest of the interval does not count
};

struct PacingPlan {
  std::vector<PacedInterval> intervals{};  ///< up to the end of the job, or all intervals
  bool finishes = false;                   ///< by the end of the intervals
  double cost = 0;
  double lower_bound = 0;  ///< on the cost of every plan that finishes, for these weights
};

enum class PacingEffort : unsigned char {
  kThorough,  ///< for a plan that is carried out
  kSearched,  ///< a tenth of the search: the next hour plans again
  kQuick,     ///< no search: uses the result of the price
};
/// Returns the effort for a plan that is replaced at the next interval: a search for up to 60
/// intervals; beyond that, the result of the price is as good.
PacingEffort replanning_effort(std::size_t intervals);

/// Returns the cheapest plan found. If no plan finishes, runs at the fastest pace throughout.
PacingPlan plan_pacing(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                       std::span<const PacingInterval> intervals,
                       PacingEffort effort = PacingEffort::kThorough);

/// Energy, work and time of one interval of a plan.
struct IntervalUse {
  Joules energy{};
  double work = 0;
  Seconds time{};  ///< until the job is finished
};
IntervalUse use_of(const PaceCurve& curve, const PacingJob& job, const PacedInterval& paced,
                   Seconds duration);

/// Returns the state after an interval.
PacingState after(const PacingState& state, const PacedInterval& paced, Seconds duration);

}  // namespace harpe::carbon
