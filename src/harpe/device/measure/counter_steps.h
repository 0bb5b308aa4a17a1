#pragma once
/// \file
/// When an energy counter stepped. Counters of GPUs stand still for about 100 ms and then jump; a
/// reader sees only that a jump lies between two of its readings. Where the steps come regularly,
/// many readings together say far better when: they lie on a line over their number, each straying
/// from it by chance (jitter). The line and the jitter that explain all readings are found by
/// expectation maximisation; every new reading says better when the steps before it came, too.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// A step of the counter: at `time`, give or take `sigma` (standard deviation), it rose to `value`.
/// It surely came between `earliest` and `latest`.
struct CounterStep {
  Instant time;
  Seconds sigma;
  Joules value;
  Instant earliest{}, latest{};
};

/// Where a step lies by all that was read so far.
struct PlacedStep {
  Instant time;
  Seconds own{};      ///< standard deviation that no other step shares
  double common = 0;  ///< variance that all steps err by together, s^2
  double number = 0;  ///< on the line; only where `on_line`
  bool on_line = false;
};

/// A normal distribution of which is known that the value lies between two bounds.
struct TruncatedNormal {
  double mean = 0, variance = 0;
  double share = 0;                              ///< of the whole distribution, between the bounds
  bool likely() const { return share >= 1e-4; }  ///< else the bounds alone count
};
TruncatedNormal truncated_normal(double mean, double sigma, double low, double high);

/// Learns period and phase from readings. No threads, no input or output. A reading costs constant
/// time; memory is bounded.
class CounterSteps {
 public:
  static constexpr std::size_t kRemembered = 40;

  /// \param expected  period of the steps where it cannot be learnt because readings are rarer.
  explicit CounterSteps(Seconds expected = {0.1}) : expected_(expected) {}

  /// A reading taken somewhere within `time` +- `spread`; times must rise. Returns the newest step
  /// when there was one since the last reading; the first reading tells of the step before it. A
  /// value below the last one starts over (`restart`).
  std::optional<CounterStep> add(Instant time, Seconds spread, Joules value);

  /// Forgets the last value, so that the next reading begins a new series: after a reset or a wrap.
  void restart();
  std::optional<Joules> last_value() const;

  /// Whether reading at `now` can tell something, when the next chance is `interval` later. False
  /// only well before the next step, so that not reading widens no bracket.
  bool due(Instant now, Seconds interval) const;

  /// As learnt; before, as steps seem to come if not as expected. Where readings are no more
  /// frequent than steps, the time between steps that were seen.
  Seconds period() const { return {period_.value_or(seen_.value_or(expected_.value))}; }
  /// Whether the last steps agree with one period and phase.
  bool regular() const { return line_.has_value(); }

  /// The newest steps (`kRemembered` at most), oldest first, as far as they belong to one series.
  std::vector<PlacedStep> placed() const;
  /// How the places of steps of those two numbers err together, because the line does, s^2.
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
    double since = 0;        ///< from the reading before to `high`; 0: there was none
    double spread = 0;       ///< of `high`, s
    double value = 0;        ///< J
    std::int64_t index = 0;  ///< counts periods
    bool counted = false;    ///< `index` is sure
    double middle() const { return (low + high) / 2; }
    double width() const { return high - low; }
  };

  /// Steps come at `middle` + `slope` * (index - `center`), each straying by `jitter`.
  struct Line {
    double center = 0, middle = 0, slope = 0, jitter = 0;  ///< s
    double middle_variance = 0, slope_variance = 0;        ///< s^2
    double at(double index) const { return middle + slope * (index - center); }
    double variance(double index) const {
      return middle_variance + (index - center) * (index - center) * slope_variance;
    }
  };

  /// What is known of the period beside the brackets, s.
  struct PeriodPrior {
    double mean = 0, sigma = 0;
    bool resolved = true;  ///< false: steps come about as often as readings, or more often
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
  std::optional<PeriodPrior> learnt_;  ///< from brackets that were dropped
  std::optional<Line> line_;
  double next_earliest_ = 0;  ///< the next step comes no earlier, in seconds since `origin_`
};

}  // namespace harpe::device
