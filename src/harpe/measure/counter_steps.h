#pragma once
/// \file
/// When an energy counter stepped. Counters of GPUs stand still for about 100 ms and then jump; a
/// reader sees only that a jump lies between two of its readings. Where the steps come regularly,
/// many readings together say far better when: the period and phase that agree with all of them.

#include <cstdint>
#include <deque>
#include <optional>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe {

/// A step of the counter: at `time`, give or take `sigma` (standard deviation), it rose to `value`.
/// It surely came between `earliest` and `latest`.
struct CounterStep {
  Instant time;
  Seconds sigma;
  Joules value;
  Instant earliest{}, latest{};
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
  /// \param expected  period of the steps where it cannot be learnt because readings are rarer.
  explicit CounterSteps(Seconds expected = {0.1}) : expected_(expected) {}

  /// A reading taken somewhere within `time` +- `spread`; times must rise. Returns the newest step
  /// when there was one since the last reading. A value below the last one starts over (`restart`).
  std::optional<CounterStep> add(Instant time, Seconds spread, Joules value);

  /// Forgets the last value, so that the next reading begins a new series: after a reset or a wrap.
  void restart();
  bool started() const { return last_.has_value(); }
  std::optional<Joules> last_value() const;

  /// Whether reading at `now` can tell something, when the next chance is `interval` later. False
  /// only well before the next step, so that not reading widens no bracket.
  bool due(Instant now, Seconds interval) const;

  /// As learnt; as expected before.
  Seconds period() const { return {period_.value_or(expected_.value)}; }
  /// Whether the last steps agree with one period and phase.
  bool regular() const { return regular_; }

 private:
  struct Reading {
    Instant time;
    Seconds spread;
    Joules value;
  };
  /// The step lies in (low, high], in seconds since `origin_`.
  struct Bracket {
    double low = 0, high = 0;
    double between_readings = 0;  ///< may be longer than a period
    std::int64_t index = 0;       ///< counts periods
    double middle() const { return (low + high) / 2; }
    double width() const { return high - low; }
  };

  /// Steps come at `phase` + `slope` * (index - `reference`), each straying by `jitter`.
  struct Grid {
    std::int64_t reference = 0;
    double phase = 0, slope = 0, jitter = 0;  ///< s
    double variance = 0;                      ///< of the next step's place on the grid, s^2
    double at(std::int64_t index) const {
      return phase + slope * static_cast<double>(index - reference);
    }
  };

  CounterStep newest_step(Instant reading, Joules value);
  /// Numbers the steps; false where readings are too rare to tell them apart.
  bool number_steps();
  void improve_grid();

  Seconds expected_;
  std::optional<Reading> last_;
  Instant origin_;
  std::deque<Bracket> brackets_;
  std::optional<double> period_;
  std::optional<Grid> grid_;
  bool regular_ = false;
  double next_earliest_ = 0;  ///< the next step comes no earlier, in seconds since `origin_`
};

}  // namespace harpe
