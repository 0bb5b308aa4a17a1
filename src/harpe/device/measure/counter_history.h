#pragma once
/// \file
/// Energy of a device at the steps of its counter, and its relation to integrated power.
///
/// Every step is a knot on an axis of joules that is continuous over restarts of the counter: the
/// energy used during a restart is bridged by integrated power. The ratio of counter joules to
/// power joules is learned from step to step, and so is their disagreement.

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
  /// Least number of steps that determine the slope of a counter without a power sensor.
  static constexpr double kShortSpan = 10;
  /// A step of the counter, on an axis of joules that is continuous over restarts.
  struct Knot {
    Instant time{};
    double sigma = 0;    ///< standard deviation of `time`, s
    double energy = 0;   ///< J
    double bridged = 0;  ///< variance of all bridges over restarts so far, J^2
    SampledPower::Integral at{};
    int restarts = 0;
    Instant earliest{}, latest{};
    double own = 0;            ///< part of `sigma` independent of other steps, s
    double line_variance = 0;  ///< variance of `time` shared with other steps, s^2
    double number = 0;         ///< number of the step on the line of all steps
    bool on_line = false;
  };

  /// \param counter_step      period of the steps until it is learned
  /// \param longest_interval  longest time between steps that are compared with power
  CounterHistory(Seconds counter_step, Seconds longest_interval)
      : steps_(counter_step), longest_interval_(longest_interval.value) {}

  /// Adds a reading, taken after the last sample of `power`. If `power` has no sensor, sets its
  /// rate from the counter's steps.
  /// \param since_start  time since the first sample of the device
  void add(Instant time, Seconds spread, Joules value, Seconds since_start, SampledPower& power);
  /// Returns true if reading the counter at `now` may show a step; see CounterSteps.
  bool is_due(Instant now, Seconds interval) const { return steps_.due(now, interval); }
  /// Drops knots before an instant, but never the last knot.
  void forget(Instant before);

  const std::deque<Knot>& knots() const { return knots_; }
  const Knot& knot(std::ptrdiff_t at) const { return knots_[static_cast<std::size_t>(at)]; }
  bool empty() const { return knots_.empty(); }
  /// Returns the number of the first knot, counted from the first ever added.
  std::int64_t first_number() const { return first_knot_; }
  int restarts() const { return restarts_; }
  Seconds period() const { return steps_.period(); }
  /// Returns the covariance of the times of two knots with these numbers on the line.
  double common_variance(double a, double b) const { return steps_.common_variance(a, b); }

  /// Returns the index of the last usable knot before an instant; -1 if there is none.
  std::ptrdiff_t knot_before(Instant time) const;
  /// Returns the index of the first knot from `from` on, in `direction`, that has a known number on
  /// the line. Returns `from` if several knots in a row have none: their steps did occur between
  /// two readings, and a gap over many steps would ignore the counter's values in between.
  std::ptrdiff_t usable_knot(std::ptrdiff_t from, std::ptrdiff_t direction) const;
  /// Returns true if at most one usable step lies after knot `first` up to knot `last`.
  bool are_close(std::ptrdiff_t first, std::ptrdiff_t last) const;

  double scale() const { return scale_; }  ///< counter joules per power joule
  /// Returns the standard error of the scale.
  double scale_error(const SampledPower& power) const;
  /// Returns the factor on variances if counter and power disagree by more than their errors
  /// explain; at least 1.
  double inflation(const SampledPower& power) const;
  int compared() const { return compared_; }  ///< steps compared with power
  /// Returns true if the counter is ignored because it differs too much from integrated power.
  bool is_distrusted() const { return distrusted_; }

 private:
  /// Largest number of knots without a known number that are skipped in a row.
  static constexpr int kMostSkipped = 2;

  void add_knot(const CounterStep& step, SampledPower& power);
  void place_knots(const SampledPower& power);
  void compare(const Knot& before, const Knot& after, SampledPower& power);
  void learn_rate(double used, double time, SampledPower& power);
  /// Returns true if the number of this step on the line is known, or if steps are irregular.
  bool is_placed(const Knot& knot) const { return knot.on_line || !steps_.regular(); }

  CounterSteps steps_;
  double longest_interval_;         // s
  std::optional<Instant> counted_;  ///< time of the last reading of the counter
  std::deque<Knot> knots_;
  std::int64_t first_knot_ = 0;  ///< number of knots_.front()
  bool restarted_ = false;       ///< true if the counter restarted since the last knot
  double offset_ = 0;            ///< offset from the counter to the axis of the knots, J
  int restarts_ = 0;
  double scale_ = 1;
  double scale_variance_ = 0;  ///< variance of `scale_` from the steps' times and from power
  double disagreement_ = 0;    ///< mean square of counter minus power over one step, J^2
  double expected_ = 0;        ///< part of `disagreement_` that the model explains, J^2
  int compared_ = 0;
  bool distrusted_ = false;
};

}  // namespace harpe::device
