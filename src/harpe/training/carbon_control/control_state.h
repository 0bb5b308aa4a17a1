#pragma once
/// \file
/// The state of a job's carbon control, kept between decisions and across restarts of the server.
///
/// Values; pure.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/carbon/intensity.h"

namespace harpe::training {

/// The deviation of a job's progress from its plan, and the time to keep in reserve for it.
///
/// Each interval in which the job was planned to run gives the planned work w, in seconds at the
/// fastest pace, and the shortfall x (slow iterations, restarts, lost hours). Losses of separate
/// pieces of work are assumed to be independent, with mean m w and variance v w:
///
///     m = max(0, sum x / sum w)      v = sum (x - m w)^2 / sum w
///
/// The average loss of remaining work L is m L, with a variance of v L for the work itself and of v
/// L^2 / sum w because m is an estimate. With t_p the p quantile of Student's t,
///
///     reserve(L, p) = m L + max(t_p sqrt(v L + v L^2 / sum w), q_p)
///
/// q_p is the p quantile of single losses x - m w, as a conformal bound: the ceil((n+1) p)th of n
/// if n is that large, and at most L. So a rare restart that lasts an interval counts in full and
/// not as one of many small delays. Four intervals with a deviation of 5 % are added to the
/// measured ones.
///
/// A value; pure and deterministic.
class ProgressSpread {
 public:
  struct Interval {
    double planned = 0;  ///< seconds at the fastest pace, above 0
    double lost = 0;     ///< part of `planned` that was lost; negative if more was done
    friend bool operator==(const Interval&, const Interval&) = default;
  };
  /// Limit on the number of intervals; the newest are kept.
  static constexpr std::size_t kMostIntervals = 256;

  void add(const Interval& interval);
  /// Returns the reserve for `work_left` seconds of work at the fastest pace: finite, 0 or more.
  /// O(intervals log intervals).
  double reserve(double work_left, double probability) const;
  /// Returns m, the mean loss of a second's work.
  double mean_loss() const;
  const std::deque<Interval>& intervals() const { return intervals_; }

 private:
  std::deque<Interval> intervals_;
};

/// Returns the p quantile of the standard normal distribution, p in (0, 1), to 5e-4 (Abramowitz and
/// Stegun 26.2.23).
double normal_quantile(double p);

/// The number of finished iterations of a run, over all starts of its training. The first iteration
/// of a start shows how its ranks count:
/// - the one after the newest of the previous start: they continue to count;
/// - otherwise, one of the first few: they count from 0, and all earlier iterations are added;
/// - otherwise: they count the whole run, as after a checkpoint.
class IterationCount {
 public:
  IterationCount() = default;
  /// \param done  finished before the next reported iteration
  /// \param newest  reported so far in this start; -1 if none
  IterationCount(std::int64_t done, std::int64_t newest)
      : base_(done - newest - 1), newest_(newest) {}

  /// \param newest  iteration reported in this start of training; -1 if none yet
  void observe(std::int64_t newest);
  std::int64_t done() const { return base_ + newest_ + 1; }
  std::int64_t base() const { return base_; }
  std::int64_t newest() const { return newest_; }
  static constexpr std::int64_t kFirstFew = 8;
  friend bool operator==(const IterationCount&, const IterationCount&) = default;

 private:
  /// From earlier starts; negative if this start began beyond the counted iterations.
  std::int64_t base_ = 0;
  std::int64_t newest_ = -1;
  std::int64_t before_ = -1;  ///< newest iteration of the previous start; not stored
};

/// An interval for which a decision was made.
struct DecidedInterval {
  Seconds from{};     ///< by a steady clock
  double done = 0;    ///< iterations
  double speed = 0;   ///< work per second, in seconds at the fastest pace; 0 if paused
  Seconds lost{};     ///< to start or stop, before the interval's work
  Watts power{};      ///< on average
  double weight = 0;  ///< grams per joule
  Seconds fastest{};  ///< iteration time of the fastest plan at that time
  Seconds length{};   ///< planned length
  friend bool operator==(const DecidedInterval&, const DecidedInterval&) = default;
};

struct ControlState {
  Seconds begun{};           ///< since 1970
  Seconds deadline{};        ///< since 1970; 0 if there is none
  double done_at_begin = 0;  ///< iterations
  std::string source = {};   ///< of the intensity when control began
  IntensityKind kind = IntensityKind::kUnstated;
  bool is_paused = false;
  /// Training was asked to pause, but continued: it is not asked again.
  bool pauses_ignored = false;
  Seconds switched{};  ///< since 1970: last pause or resumption; 0 if it has never paused
  double spent = 0, static_spent = 0;  ///< grams: of the job as controlled, of the static job
  // For a job of unknown length: since control began, without the time while control was away.
  Seconds elapsed{};
  double worked = 0;  ///< seconds at the fastest pace, by the plans of each interval
  std::optional<DecidedInterval> decided = {};
  ProgressSpread spread = {};

  bool has_begun() const { return begun > Seconds{0}; }
};

std::string control_state_json(const ControlState& state);
/// Unknown members are ignored.
Result<ControlState> parse_control_state(std::string_view text);

}  // namespace harpe::training
