#pragma once
/// \file
/// What control of a job has to remember between two decisions, and over a restart of the server.
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
/// Each interval in which the job was to run gives the planned work w, in seconds at the fastest
/// pace, and the shortfall x (slow iterations, restarts, lost hours). Losses of separate pieces of
/// work are assumed to be independent, with mean m w and variance v w:
///
///     m = max(0, sum x / sum w)      v = sum (x - m w)^2 / sum w
///
/// Of remaining work L, m L is then lost on average, with a variance of v L for the work itself and
/// of v L^2 / sum w because m is an estimate. With t_p the p quantile of Student's t,
///
///     reserve(L, p) = m L + max(t_p sqrt(v L + v L^2 / sum w), q_p)
///
/// q_p is the p quantile of single losses x - m w, as a conformal bound: the ceil((n+1) p)th of n
/// if n is that large, and at most L. So a rare restart as long as an interval counts in full and
/// not as one of many small delays. Four intervals with a deviation of 5 % are added to the
/// measured ones.
///
/// A value; pure and deterministic.
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

/// Number of iterations of a run that are done, over all starts of its training. The first
/// iteration of a start tells how its ranks count:
///   - the one after the newest of the start before: they continue to count;
///   - else one of the first few: they count from 0, and all iterations before are added;
///   - else: they count the whole run, as after a checkpoint.
class IterationCount {
 public:
  IterationCount() = default;
  /// \param done  before the iteration that is reported next
  /// \param newest  reported so far in this start; -1: none
  IterationCount(std::int64_t done, std::int64_t newest)
      : base_(done - newest - 1), newest_(newest) {}

  /// \param newest  iteration reported in this start of training; -1: none yet
  void observe(std::int64_t newest);
  std::int64_t done() const { return base_ + newest_ + 1; }
  std::int64_t base() const { return base_; }
  std::int64_t newest() const { return newest_; }
  static constexpr std::int64_t kFirstFew = 8;
  friend bool operator==(const IterationCount&, const IterationCount&) = default;

 private:
  std::int64_t base_ = 0;  ///< of starts before; below 0: this one began beyond what is counted
  std::int64_t newest_ = -1;
  std::int64_t before_ = -1;  ///< newest of the start before; not stored
};

/// An interval that was decided upon.
struct DecidedInterval {
  Seconds from{};     ///< of a clock that rises evenly
  double done = 0;    ///< iterations
  double speed = 0;   ///< seconds' work at the fastest pace a second; 0: paused
  Seconds lost{};     ///< to start, before that
  Watts power{};      ///< on average
  double weight = 0;  ///< grams a joule
  Seconds fastest{};  ///< of an iteration, by the plans of then
  Seconds length{};   ///< for which it was decided upon
  friend bool operator==(const DecidedInterval&, const DecidedInterval&) = default;
};

struct ControlState {
  Seconds begun{};           ///< since 1970
  Seconds deadline{};        ///< since 1970; 0: there is none
  double done_at_begin = 0;  ///< iterations
  std::string source = {};   ///< by which it began, and goes on
  IntensityKind kind = IntensityKind::kUnstated;
  bool is_paused = false;
  bool pauses_ignored = false;  ///< training was asked to pause, and went on: it is not asked again
  Seconds switched{};           ///< since 1970: when it paused or went on; 0: it has run all along
  double spent = 0, static_spent = 0;  ///< grams: by its own decisions, by the static job
  // Of a job of unknown length, since control began; not while control was away.
  Seconds elapsed{};
  double worked = 0;  ///< seconds at the fastest pace, by the plans of each interval
  std::optional<DecidedInterval> decided = {};
  ProgressSpread spread = {};

  bool has_begun() const { return begun > Seconds{0}; }
};

std::string control_state_json(const ControlState& state);
/// Members that are not known are left out.
Result<ControlState> parse_control_state(std::string_view text);

}  // namespace harpe::training
