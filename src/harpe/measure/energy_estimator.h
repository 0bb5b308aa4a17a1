#pragma once
/// \file
/// How much energy one device used between two instants, with an error bar, from what its sensors
/// told now and then.
///
/// Model. A GPU's energy counter is right whenever it steps (about every 100 ms) and stale in
/// between; its power sensor is there at any time, but noisy, and its scale need not agree with the
/// counter. So energy at an instant is the counter at the step before, plus what power says has
/// been used since, in the scale that made both agree over the last seconds; where the next step is
/// known already, what the counter rose by is spread over that step in proportion to power. Without
/// a counter, power is integrated: linear between samples, held beyond the first and the last.
///
/// The statistical error says how far the answer may be from what a perfect reading of the same
/// sensors would have said: not knowing just when the counter stepped, noise, and power that
/// changed between samples. It is checked against how well counter and power agreed in the last
/// steps and grows where they did not. The sensor's own accuracy is another matter, is no
/// smaller in longer windows, and is given apart.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/measure/counter_steps.h"

namespace harpe {

/// One look at a device. What could not be read is empty.
struct EnergySample {
  Instant time{};     ///< the middle of the reading
  Seconds spread{0};  ///< half of how long it took
  std::optional<Joules> counter{};
  std::optional<Watts> power{};
};

/// Where joules come from.
enum class EnergySource : unsigned char {
  kNone,             ///< nothing could be read
  kCounter,          ///< the device's energy counter
  kCounterAndPower,  ///< the counter, its edges corrected by sampled power
  kPowerInOneStep,   ///< power within one step of the counter, in the counter's scale
  kPower,            ///< integrated instant power
  kAveragePower,     ///< integrated power which the sensor averages over a time
};
std::string_view source_name(EnergySource source);

/// How far the sensor itself may be off, as a share of the reading, and who says so.
struct SensorAccuracy {
  double share = 0.05;
  std::string source{};
};

/// Answer for one window.
struct EnergyEstimate {
  Joules energy{};
  Joules error{};         ///< half-width of the 95 % interval; see above what it covers
  Joules sensor_error{};  ///< accuracy of the sensor; apart from `error`
  Seconds time{};
  EnergySource source = EnergySource::kNone;
  Seconds unobserved{};  ///< of `time`: in holes between samples, as while suspended
  /// Of the window, after the device failed: nothing of it is in `energy`, which is the least that
  /// was used, nor in `time`.
  Seconds missing{};
  int restarts = 0;  ///< of the counter inside the window; bridged by power
  /// Joules of the counter per joule of integrated power over the last seconds: 1 where both
  /// sensors agree.
  std::optional<double> counter_per_power{};

  Watts mean_power() const { return time.value > 0 ? energy / time : Watts{0}; }
};

/// A moment when the energy counter stepped: what it says is then right, and stale until the next.
struct CounterEdge {
  Instant time{};
  Seconds sigma{};  ///< standard deviation of `time`
  Joules energy{};  ///< on an axis that restarts of the counter do not break
  /// Of the counter so far; energy between edges that differ is bridged by power.
  int restarts = 0;
  Instant earliest{}, latest{};  ///< it surely came between these
};

struct EstimatorOptions {
  Seconds counter_step{0.1};    ///< until it is learnt
  Seconds power_window{0};      ///< the power sensor averages over this long; 0: instant
  Seconds longest_interval{1};  ///< samples further apart leave a hole
  Seconds history{120};         ///< of samples kept
  SensorAccuracy accuracy{};
};

/// Takes samples in order of time; answers for any instants. No threads, no input or output.
/// Memory is bounded by `history`, however long windows are: what a window opened with `open`
/// needs of its beginning is kept apart. Adding is O(1) amortised, answering O(log samples).
class EnergyEstimator {
 public:
  explicit EnergyEstimator(EstimatorOptions options = {});

  /// Samples older than the newest are ignored.
  void add(const EnergySample& sample);
  /// Whether the counter can tell something at `now`; see CounterSteps.
  bool counter_due(Instant now, Seconds interval) const;
  bool empty() const { return !newest_; }
  std::optional<Instant> newest() const { return newest_; }

  /// Both instants should be within the history; before and after the samples, power is taken as
  /// constant, which the error accounts for.
  EnergyEstimate between(Instant begin, Instant end) const;

  /// Steps of the counter since then, of the newest 300; oldest first, where all of them together
  /// say that they came (counter_grid.h).
  std::vector<CounterEdge> edges(Instant since) const;

  /// A window of any length, by a handle.
  int open(Instant begin);
  /// Answers without closing; an unknown handle answers nothing (`kNone`).
  EnergyEstimate so_far(int window, Instant end) const;
  EnergyEstimate close(int window, Instant end);

  /// Energy since the first sample. Never falls from call to call, though what is known of the
  /// past improves.
  Joules total(Instant now);

 private:
  static constexpr double kNinetyFivePercent = 1.959964;  ///< normal distribution, both sides
  static constexpr std::size_t kMostOnGrid = 300;
  /// Steps of a counter without power that say little of its slope.
  static constexpr double kShortSpan = 10;
  /// Power sampled, with its integrals since the first sample.
  struct PowerPoint {
    Instant time{};
    double power = 0;
    double integral = 0;    ///< J
    double variance = 0;    ///< of `integral`, J^2
    double unobserved = 0;  ///< s
  };
  /// What the power integral says at one instant.
  struct PowerIntegral {
    double power = 0, integral = 0, variance = 0, unobserved = 0;
  };
  /// A step of the counter, on an axis of joules that restarts do not break.
  struct Knot {
    Instant time{};
    double sigma = 0;    ///< of `time`, s
    double energy = 0;   ///< J
    double bridged = 0;  ///< variance of bridges over restarts up to here, J^2
    PowerIntegral at{};
    int restarts = 0;
    Instant earliest{}, latest{};
  };
  /// Energy at one instant, on both axes.
  struct Edge {
    Instant time{};
    PowerIntegral at{};
    double energy = 0;    ///< on the counter's axis
    double variance = 0;  ///< of it, as far as it is this edge's own
    double bridged = 0;
    int restarts = 0;
    std::int64_t knot = -1;  ///< number of the knot before (-1: none)
    /// Of the step around it, when the next one is known: counter minus power, and its variance.
    double residual = 0, residual_variance = 0;
    double inflation = 1;     ///< of variances, as counter and power disagreed lately
    bool on_counter = false;  ///< `energy` is known
  };
  struct Window {
    Instant begin;
    std::optional<Edge> edge{};  ///< once it can be known no better
  };

  void add_power(Instant time, double power);
  void add_counter(const EnergySample& sample);
  void add_knot(const CounterStep& step);
  void compare(const Knot& before, const Knot& after);
  void forget(Instant before);
  PowerIntegral power_at(Instant time) const;
  Edge edge(Instant time) const;
  EnergyEstimate difference(const Edge& begin, const Edge& end) const;
  double scale_error() const;

  EstimatorOptions options_;
  CounterSteps steps_;
  std::optional<Instant> first_, newest_;
  bool has_power_ = false;
  Instant looked_{};        ///< at power, last
  bool repeating_ = false;  ///< the sensor measures more seldom than it is looked at
  bool repeated_ = false;   ///< power did not change since the newest point
  std::deque<PowerPoint> points_;
  std::deque<double> changes_;  ///< of power between neighbouring samples, W
  double noise_ = 0;            ///< standard deviation of a power sample, W
  double wander_ = 0;           ///< mean square change of power between samples, W^2
  double highest_ = 0;          ///< power seen, W
  double typical_interval_ = 0.02;
  double rate_ = 0;  ///< variance per second of the integral where no power is sampled

  std::deque<Knot> knots_;
  std::int64_t first_knot_ = 0;  ///< number of knots_.front()
  bool restarted_ = false;       ///< since the last knot
  double offset_ = 0;            ///< from the counter to the axis of the knots, J
  int restarts_ = 0;
  double scale_ = 1;           ///< counter joules per power joule
  double scale_variance_ = 0;  ///< of it, from when the counter stepped and from power
  double disagreement_ = 0;    ///< mean square of counter minus power over one step, J^2
  double expected_ = 0;        ///< what of it the model explains, J^2
  int compared_ = 0;
  bool distrusted_ = false;

  std::map<int, Window> windows_;
  int next_window_ = 0;
  std::optional<int> total_window_;
  double reported_total_ = 0;
};

}  // namespace harpe
