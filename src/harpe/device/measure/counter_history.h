#pragma once
/// \file
/// Energy of a device at the steps of its counter, and how power relates to it.
///
/// Every step is a knot on an axis of joules that restarts of the counter do not break: what was
/// used while it restarted is bridged by integrated power. Counter joules per power joule are
/// learned from step to step, and so is how far both disagree.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/counter_steps.h"
#include "harpe/device/measure/sampled_power.h"

namespace harpe::device {

/// Not thread-safe. Adding is O(1) amortised, a look-up O(log steps).
class CounterHistory {
 public:
  /// Steps of a counter without power that say little of its slope.
  static constexpr double kShortSpan = 10;
  /// A step of the counter, on an axis of joules that restarts do not break.
  struct Knot {
    Instant time{};
    double sigma = 0;    ///< of `time`, s
    double energy = 0;   ///< J
    double bridged = 0;  ///< variance of bridges over restarts up to here, J^2
    SampledPower::Integral at{};
    int restarts = 0;
    Instant earliest{}, latest{};
    double own = 0;            ///< part of `sigma` that no other step shares
    double line_variance = 0;  ///< of `time`, that other steps share, s^2
    double number = 0;         ///< on that line
    bool on_line = false;
  };

  /// \param counter_step      period of the steps until it is learned
  /// \param longest_interval  steps further apart are not compared with power
  CounterHistory(Seconds counter_step, Seconds longest_interval)
      : steps_(counter_step), longest_interval_(longest_interval.value) {}

  /// Adds a reading, taken after the last sample of `power`, which learns from it if it has no
  /// sensor.
  /// \param since_start  from the first sample of the device
  void add(Instant time, Seconds spread, Joules value, Seconds since_start, SampledPower& power);
  /// Returns true if reading the counter at `now` can tell something; see CounterSteps.
  bool is_due(Instant now, Seconds interval) const { return steps_.due(now, interval); }
  /// Forgets knots before an instant, but for the last one.
  void forget(Instant before);

  const std::deque<Knot>& knots() const { return knots_; }
  const Knot& knot(std::ptrdiff_t at) const { return knots_[static_cast<std::size_t>(at)]; }
  bool empty() const { return knots_.empty(); }
  /// Number of the first knot; forgotten ones count.
  std::int64_t first_number() const { return first_knot_; }
  int restarts() const { return restarts_; }
  Seconds period() const { return steps_.period(); }
  /// Returns the variance that knots with these numbers on the line have in common.
  double common_variance(double a, double b) const { return steps_.common_variance(a, b); }

  /// Returns the index of the knot before an instant whose place is sure; -1 if there is none.
  std::ptrdiff_t knot_before(Instant time) const;
  /// Returns the next knot from that one on, forwards or backwards, whose place is sure. If none is
  /// near, the step surely came all the same, somewhere between two readings: a gap that went on
  /// over many such steps would leave out what the counter said in the meantime.
  std::ptrdiff_t usable_knot(std::ptrdiff_t from, std::ptrdiff_t direction) const;
  /// Returns true if at most one step came between two instants behind those knots.
  bool are_close(std::ptrdiff_t first, std::ptrdiff_t last) const;

  double scale() const { return scale_; }  ///< counter joules per power joule
  /// Returns the standard error of the scale.
  double scale_error(const SampledPower& power) const;
  /// Returns the factor on variances if counter and power disagree by more than their errors
  /// explain; at least 1.
  double inflation(const SampledPower& power) const;
  int compared() const { return compared_; }  ///< steps compared with power
  /// Returns true if the counter's joules are so far from the integrated power's that the counter
  /// is not believed.
  bool is_distrusted() const { return distrusted_; }

 private:
  /// Steps whose place is not sure that are skipped in a row.
  static constexpr int kMostSkipped = 2;

  void add_knot(const CounterStep& step, SampledPower& power);
  void place_knots(const SampledPower& power);
  void compare(const Knot& before, const Knot& after, SampledPower& power);
  void learn_rate(double used, double time, SampledPower& power);
  /// Returns true if it is known which of the counter's regular steps this was, if they are
  /// regular.
  bool is_placed(const Knot& knot) const { return knot.on_line || !steps_.regular(); }

  CounterSteps steps_;
  double longest_interval_;         // s
  std::optional<Instant> counted_;  ///< when the counter was read last
  std::deque<Knot> knots_;
  std::int64_t first_knot_ = 0;  ///< number of knots_.front()
  bool restarted_ = false;       ///< since the last knot
  double offset_ = 0;            ///< from the counter to the axis of the knots, J
  int restarts_ = 0;
  double scale_ = 1;
  double scale_variance_ = 0;  ///< of it, from when the counter stepped and from power
  double disagreement_ = 0;    ///< mean square of counter minus power over one step, J^2
  double expected_ = 0;        ///< what of it the model explains, J^2
  int compared_ = 0;
  bool distrusted_ = false;
};

}  // namespace harpe::device
