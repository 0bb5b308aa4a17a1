#pragma once
/// \file
/// Which intervals a job runs in, where a second of work at the fastest pace is worth so much: the
/// shortest path over intervals x (running or paused, for how long). See pacing_plan.h.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe::carbon {

/// Sums of work differ by rounding from order to order.
inline constexpr double kWorkRounding = 1e-9;

/// Which intervals run, and what stopping and starting take of them; up to its end.
struct PricedPath {
  std::vector<PacedInterval> intervals{};
  double work = 0;  ///< at its price
};

/// For one price after another. Everything given must outlive it. O(intervals x dwell) a price.
class PricedPaths {
 public:
  PricedPaths(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
              std::span<const PacingInterval> intervals);

  PricedPath at(double price);
  /// What every plan of whole intervals that does all the work costs at least.
  double cost(double price) { return solve(price) + price * job_.work; }
  /// The same of every plan.
  double lower_bound(double price);
  /// Intervals that a run or a pause lasts at least.
  std::size_t dwell() const { return dwell_; }
  /// Intervals that the state it begins with has lasted, up to those.
  std::size_t spent() const { return first_; }

 private:
  enum class Action : unsigned char { kRun, kPause, kEnd };

  std::size_t state_of(bool paused, std::size_t spent) const {
    return (paused ? modes_ : 0) + spent;
  }
  Seconds lost(std::size_t interval, bool was_paused, bool runs) const;
  double solve(double price);
  double cost_of_run(std::size_t interval, bool was_paused) const;
  double cost_of_pause(std::size_t interval, bool was_paused) const;
  double cost_of_idling(std::size_t interval) const;
  PricedPath trace() const;

  const PaceCurve& curve_;
  const PacingJob& job_;
  const PacingState& state_;
  std::span<const PacingInterval> intervals_;
  std::size_t dwell_ = 1, first_ = 0;  ///< intervals
  std::size_t modes_ = 2;  ///< states of a job that runs: intervals it has run, up to `dwell_`
  double price_ = 0;
  bool relaxed_ = false;
  std::vector<Action> actions_;  ///< of each interval and state
};

}  // namespace harpe::carbon
