#pragma once
/// \file
/// Times at which an energy counter stepped. GPU counters are constant for about 100 ms and then
/// jump; a reader only sees that a jump lies between two of its readings. If steps are regular,
/// many readings together determine their times far better: the times lie on a line over the
/// number of the step, each with a random deviation (jitter). Expectation maximisation finds the
/// line and the jitter that best explain all readings. New readings also improve earlier times.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// A step of the counter to `value` at `time`, with standard deviation `sigma`. `earliest` and
/// `latest` are proven bounds on the time.
struct CounterStep {
  Instant time;
  Seconds sigma;
  Joules value;
  Instant earliest{}, latest{};
};

/// The time of a step estimated from all readings so far.
struct PlacedStep {
  Instant time;
  Seconds own{};      ///< standard deviation of the error independent of other steps
  double common = 0;  ///< variance of the error that all steps share, s^2
  double number = 0;  ///< number of the step on the line; valid if `on_line`
  bool on_line = false;
};

/// A normal distribution truncated to an interval.
struct TruncatedNormal {
  double mean = 0, variance = 0;
  double share = 0;                              ///< probability of the interval before truncation
  bool likely() const { return share >= 1e-4; }  ///< false if the result is uniform instead
};
TruncatedNormal truncated_normal(double mean, double sigma, double low, double high);

/// A learner of period and phase from readings. No threads, no input or output. A reading costs
/// constant time; memory is bounded.
class CounterSteps {
 public:
  static constexpr std::size_t kRemembered = 40;

  /// \param expected  period of the steps if it cannot be learned because readings are rarer.
  explicit CounterSteps(Seconds expected = {0.1}) : expected_(expected) {}

  /// Adds a reading taken at an unknown instant within `time` +- `spread`; times must increase.
  /// Returns the newest step if the counter stepped since the last reading, and for the first
  /// reading the step before it. A value below the last one starts a new series (`restart`).
  std::optional<CounterStep> add(Instant time, Seconds spread, Joules value);

  /// Drops the last value, so that the next reading begins a new series, after a reset or a wrap.
  void restart();
  std::optional<Joules> last_value() const;

  /// Returns true if a reading at `now` may show a step, given that the next opportunity is
  /// `interval` later. False only well before the next step, so that skipping the reading does not
  /// widen the step's bracket.
  bool due(Instant now, Seconds interval) const;

  /// Returns the learned period; until it is learned, the period seen in the steps, or the expected
  /// one if steps agree with it. If readings are no more frequent than steps, returns the median
  /// time between the steps seen.
  Seconds period() const { return {period_.value_or(seen_.value_or(expected_.value))}; }
  /// Returns true if the last steps agree with one period and phase.
  bool regular() const { return line_.has_value(); }

  /// Returns the newest steps (`kRemembered` at most) of the present series, oldest first.
  std::vector<PlacedStep> placed() const;
  /// Returns the covariance of the times of two steps from the error of the line, s^2.
  double common_variance(double number, double other) const;

 private:
  struct Reading {
    Instant time;
    Seconds spread;
    Joules value;
  };
  /// The step lies in (low, high], in seconds since `origin_`.
  struct Bracket {
    double low = 0, high = 0;
    double since = 0;        ///< time from the reading before to `high`; 0 if there was none
    double spread = 0;       ///< spread of the reading, s
    double value = 0;        ///< J
    std::int64_t index = 0;  ///< number of the step on the line
    bool counted = false;    ///< true if `index` is certain
    double middle() const { return (low + high) / 2; }
    double width() const { return high - low; }
  };

  /// The line of steps: `middle` + `slope` * (index - `center`), with deviation `jitter` each.
  struct Line {
    double center = 0, middle = 0, slope = 0, jitter = 0;  ///< s
    double middle_variance = 0, slope_variance = 0;        ///< s^2
    double at(double index) const { return middle + slope * (index - center); }
    double variance(double index) const {
      return middle_variance + (index - center) * (index - center) * slope_variance;
    }
  };

  /// Knowledge of the period independent of the brackets, s.
  struct PeriodPrior {
    double mean = 0, sigma = 0;
    bool resolved = true;  ///< false if steps are about as frequent as readings, or more frequent
  };

  PeriodPrior seen_period() const;
  PeriodPrior period_prior() const;
  double common_share() const;
  void learn_period();
  void drop_all();
  double narrowest() const;
  std::optional<double> counted_jitter() const;
  void fit();
  void narrow_brackets();
  void count(Line& line);
  bool improve(Line& line, const PeriodPrior& known) const;
  TruncatedNormal place(const Bracket& bracket) const;

  Seconds expected_;
  std::optional<Reading> last_;
  Instant origin_;
  std::deque<Bracket> brackets_;
  std::optional<double> period_, seen_;
  std::optional<PeriodPrior> learnt_;  ///< period from brackets that were dropped
  std::optional<Line> line_;
  double next_earliest_ = 0;  ///< earliest time of the next step, in seconds since `origin_`
};

}  // namespace harpe::device
