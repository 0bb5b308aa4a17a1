#pragma once
/// \file
/// How much energy one device used between two instants, with an error bar, from what its sensors
/// told now and then.
///
/// Model. A GPU's energy counter is right whenever it steps (about every 100 ms) and stale in
/// between; its power sensor is there at any time, but noisy, sees a part of the time, and its
/// scale need not agree with the counter. Between two steps the sum is known; how it is spread over
/// the step follows from how power ran before and after it, from samples within, and from where
/// power may have changed: step_gap.h and power_side.h. So readings from before a window and from
/// after it make its edges known far better, and a window that is answered at its very end has a
/// wide bar. Without a counter, power is integrated: linear between samples, held beyond the first
/// and last.
///
/// What the error covers and what it does not: energy_estimate.h.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/counter_steps.h"
#include "harpe/device/measure/energy_estimate.h"
#include "harpe/device/measure/explanation.h"

namespace harpe {

struct SpanReading;
struct StepGap;
struct StepTime;

/// One look at a device. What could not be read is empty.
struct EnergySample {
  Instant time{};     ///< the middle of the reading
  Seconds spread{0};  ///< half of how long it took
  std::optional<Joules> counter{};
  std::optional<Watts> power{};
};

struct EstimatorOptions {
  Seconds counter_step{0.1};    ///< until it is learnt
  Seconds power_window{0};      ///< the power sensor averages over this long; 0: instant
  Seconds longest_interval{1};  ///< samples further apart leave a hole
  Seconds history{120};         ///< of samples kept
  Watts highest_power{0};       ///< that the device can draw; 0: not known
  SensorAccuracy accuracy{};
};

/// What the end of a window is: where a program said that something ended, so that power may well
/// have changed there; or just a moment at which the response so far was asked for.
enum class WindowEnd : unsigned char { kOfWork, kLook };

/// Takes samples in order of time; answers for any instants. No threads, no input or output.
/// Memory is bounded by `history`, however long windows are: what a window opened with `open`
/// needs of its beginning is kept apart. Adding is O(1) amortised, answering O(log samples).
class EnergyEstimator {
 public:
  explicit EnergyEstimator(EstimatorOptions options = {});
  /// What of the options is known only once the device has been asked; before the first sample.
  void describe(Seconds power_window, Watts highest_power);

  /// Samples older than the newest are ignored, and a second one of the same instant.
  void add(const EnergySample& sample);
  /// Whether the counter can tell something at `now`; see CounterSteps.
  bool counter_due(Instant now, Seconds interval) const;
  bool empty() const { return !newest_; }
  std::optional<Instant> newest() const { return newest_; }

  /// Both instants should be within the history; before and after the samples, power is taken as
  /// constant, which the error accounts for.
  EnergyEstimate between(Instant begin, Instant end) const;
  /// The same for many short windows at once, in microseconds where `between` takes milliseconds:
  /// from the steps and the samples next to each edge alone, so that bars are wider where those are
  /// rare, and where load changes between two samples.
  EnergyEstimate quickly_between(Instant begin, Instant end) const;
  /// Whether all has been read that makes the energy at that instant known better: two steps of the
  /// counter that came after it, or one more second.
  bool settled(Instant at) const;

  /// Steps of the counter since then, of the newest 300; oldest first, where all of them together
  /// say that they came (counter_grid.h).
  std::vector<CounterEdge> edges(Instant since) const;

  /// A window of any length, by a handle.
  int open(Instant begin);
  /// Returns without closing; an unknown handle answers nothing (`kNone`).
  EnergyEstimate so_far(int window, Instant end, WindowEnd kind = WindowEnd::kLook) const;
  EnergyEstimate close(int window, Instant end);

 private:
  static constexpr double kNinetyFivePercent = 1.959964;  ///< normal distribution, both sides
  static constexpr std::size_t kMostOnGrid = 300;
  /// Steps of a counter without power that say little of its slope.
  static constexpr double kShortSpan = 10;
  static constexpr int kMostSkipped = 2;  ///< steps whose place is not sure, in a row
  /// Power sampled, with its integrals since the first sample.
  struct PowerPoint {
    Instant time{};
    double power = 0;
    double integral = 0;    ///< J
    double variance = 0;    ///< of `integral`, J^2
    double unobserved = 0;  ///< s
    double window = 0;      ///< that the sensor looked at up to then, most likely, s
    double longest = 0;     ///< and at most, s
    double blur = 0;        ///< how far off `time` may be, s
    bool repeats = false;   ///< no new measurement: the value is the one of the point before
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
    double own = 0;            ///< part of `sigma` that no other step shares
    double line_variance = 0;  ///< of `time`, that other steps share, s^2
    double number = 0;         ///< on that line
    bool on_line = false;
  };
  /// Energy at one instant, on both axes.
  struct Edge {
    Instant time{};
    PowerIntegral at{};
    std::vector<Explanation> explanations{};  ///< of the energy on the counter's axis
    double bridged = 0;
    int restarts = 0;
    std::int64_t knot = -1;          ///< number of the knot before (-1: none)
    double line_variance = 0;        ///< of the steps' times, s^2
    std::optional<double> number{};  ///< of the knot before on the line that still holds
    bool on_counter = false;         ///< `explanations` are there
  };
  struct Window {
    Instant begin;
    std::optional<Edge> edge{};  ///< once it can be known no better
  };

  void add_first_power(Instant time, double power);
  void add_power(Instant time, double power);
  void note_change(double change, double interval);
  void note_renewal(Instant time, double since_look);
  void add_counter(const EnergySample& sample);
  void add_knot(const CounterStep& step);
  void place_knots();
  void compare(const Knot& before, const Knot& after);
  void forget(Instant before);
  PowerIntegral power_at(Instant time) const;
  double scale_error() const;

  Edge edge(Instant time, WindowEnd kind) const;
  double changes_unseen(const PowerIntegral& from, const PowerIntegral& to) const;
  double inflation() const;
  Explanation by_neighbours(const Edge& edge) const;
  bool is_long(const StepGap& gap, Instant begin) const;
  void add_by_power(Edge& edge) const;
  Explanation by_one_step(const Edge& begin, const Edge& end) const;
  static StepTime step_time(const Knot& knot, double power);
  struct Chain;
  Chain chain_around(std::ptrdiff_t first, std::ptrdiff_t last) const;
  Instant add_steps_beside(StepGap& gap, const Chain& chain, int step, bool left) const;
  SpanReading sample_reading(const PowerPoint& point, Instant zero) const;
  void add_samples_beside(StepGap& gap, Instant zero, Instant border, Instant farthest) const;
  void add_samples_within(StepGap& gap, Instant zero) const;
  void set_range(StepGap& gap) const;
  /// Between the knots `first` and `last` + 1, where that is there.
  StepGap gap_between(std::ptrdiff_t first, std::ptrdiff_t last, Instant until, WindowEnd) const;
  /// Whether it is known which of the counter's regular steps this was, if they are regular.
  bool is_placed(const Knot& knot) const { return knot.on_line || !steps_.regular(); }
  std::ptrdiff_t knot_before(Instant time) const;
  std::ptrdiff_t usable_knot(std::ptrdiff_t from, std::ptrdiff_t direction) const;
  bool are_close(std::ptrdiff_t first, std::ptrdiff_t last) const;
  EnergyEstimate difference(const Edge& begin, const Edge& end, WindowEnd kind) const;
  EnergyEstimate by_power(const Edge& begin, const Edge& end) const;
  std::vector<Explanation> by_counter(const Edge& begin, const Edge& end, WindowEnd kind) const;

  EstimatorOptions options_;
  CounterSteps steps_;
  std::optional<Instant> first_, newest_;
  std::optional<Instant> counted_;  ///< when the counter was read last
  bool has_power_ = false;
  Instant looked_{};             ///< at power, last
  bool repeating_ = false;       ///< the sensor measures more seldom than it is looked at
  bool repeated_ = false;        ///< power did not change since the newest point
  Instant renewed_{};            ///< when the newest value was seen first
  std::deque<double> renewals_;  ///< time between new values, s
  double sensor_period_ = 0.1;   ///< between measurements of the power sensor, s
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
};

}  // namespace harpe
