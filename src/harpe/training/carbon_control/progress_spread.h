#pragma once
/// \file
/// How far a job's progress strays from what was planned, and how much time has to be kept in
/// reserve for it.
///
/// Of each interval in which the job was to run: the work w planned for it, in seconds at the
/// fastest pace, and x, by how much less was done (slow iterations, restarts, lost hours). Losses
/// of separate pieces of work are taken for independent, with mean m w and variance v w:
///
///     m = max(0, sum x / sum w)      v = sum (x - m w)^2 / sum w
///
/// Of work L that is left, what is lost is then m L on average, with the variance v L of what is to
/// come and v L^2 / sum w of not knowing m. With t_p the p quantile of Student's t,
///
///     reserve(L, p) = m L + max(t_p sqrt(v L + v L^2 / sum w), q_p)
///
/// q_p is the p quantile of single losses x - m w, as a conformal bound: the ceil((n+1) p)th of n,
/// where there are so many; at most what is left, so that a restart that is rare, and as long as an
/// interval, counts in full and not as one of many small delays. Before anything is measured, and
/// beside it, four intervals count as if they had strayed by 5 %.
///
/// A value; pure and deterministic.

#include <cstddef>
#include <deque>

#include "harpe/base/units.h"

namespace harpe::training {

class ProgressSpread {
 public:
  struct Interval {
    double planned = 0;  ///< seconds at the fastest pace, above 0
    double lost = 0;     ///< of these; below 0: more was done
    friend bool operator==(const Interval&, const Interval&) = default;
  };
  /// The newest of these count.
  static constexpr std::size_t kMostIntervals = 256;

  void add(const Interval& interval);
  /// Of so much work left, at the fastest pace. 0 or more, finite. O(intervals log intervals).
  double reserve(double work_left, double probability) const;
  /// m: what is lost of a second's work.
  double mean_loss() const;
  const std::deque<Interval>& intervals() const { return intervals_; }

 private:
  std::deque<Interval> intervals_;
};

/// The p quantile of the standard normal distribution, p in (0, 1), to 5e-4 (Abramowitz and Stegun
/// 26.2.23).
double normal_quantile(double p);

}  // namespace harpe::training
