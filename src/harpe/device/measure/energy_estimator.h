#pragma once
/// \file
/// Estimator of a device's energy between two instants, with error bar, from sensor samples.
///
/// Model. A GPU's energy counter is exact when it steps (about every 100 ms) and stale in between.
/// Its power sensor can be read at any time, but is noisy, measures only part of the time, and may
/// have another scale than the counter. The energy between two steps is known. Its distribution
/// within the step follows from power before and after the step, from samples within it, and from
/// the instants at which power may have changed: step_gap.h. So readings before and after a window
/// make its edges far more accurate, and a window evaluated at its very end has a wide error bar.
/// Without a counter, power is integrated: linear between samples, constant outside them.
///
/// energy_estimate.h defines the error.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/counter_history.h"
#include "harpe/device/measure/energy_estimate.h"
#include "harpe/device/measure/power_regression.h"
#include "harpe/device/measure/sampled_power.h"

namespace harpe::device {

struct StepGap;

/// One reading of a device. Values that could not be read are empty.
struct EnergySample {
  Instant time{};     ///< middle of the reading
  Seconds spread{0};  ///< half of the reading's duration
  std::optional<Joules> counter{};
  std::optional<Watts> power{};
};

struct EstimatorOptions {
  Seconds counter_step{0.1};    ///< assumed period of the counter's steps until it is learned
  Seconds power_window{0};      ///< averaging time of the power sensor; 0 if instant
  Seconds longest_interval{1};  ///< longest time between samples that leaves no gap
  Seconds history{120};         ///< age of the oldest samples kept
  Watts highest_power{0};       ///< highest power that the device can draw; 0 if unknown
  SensorAccuracy accuracy{};
};

/// Kinds of ends of a window: an instant at which a program reported that something ended, so
/// that power may well have changed there; or only the instant at which the energy so far was
/// requested.
enum class WindowEnd : unsigned char { kOfWork, kLook };

/// Estimates energy between any instants from samples in order of time. No threads, no input or
/// output. Memory is bounded by `history` for windows of any length, because the begin of a window
/// opened with `open` is stored separately. Adding is O(1) amortised, an estimate O(log samples).
class EnergyEstimator {
 public:
  explicit EnergyEstimator(EstimatorOptions options = {});
  /// Sets options known only after a first call to the device. Call before the first `add`.
  void describe(Seconds power_window, Watts highest_power);

  /// Adds a sample. Samples older than the newest are ignored, and duplicates of one instant.
  void add(const EnergySample& sample);
  /// Returns true if reading the counter at `now` may show a step; see CounterSteps.
  bool counter_due(Instant now, Seconds interval) const;
  bool empty() const { return !newest_; }
  std::optional<Instant> newest() const { return newest_; }

  /// Returns the energy between two instants, which should be within the history. Before the first
  /// and after the last sample, power is assumed constant, and the error accounts for that.
  EnergyEstimate between(Instant begin, Instant end) const;
  /// Returns the same estimate in microseconds instead of milliseconds, for many short windows.
  /// Uses only the steps and samples next to each edge. So error bars are wider if steps or samples
  /// are rare, or if load changes between two samples.
  EnergyEstimate quickly_between(Instant begin, Instant end) const;
  /// Returns true if further readings would not improve the energy at `at`: two steps of the
  /// counter have followed it, or one second has passed.
  bool settled(Instant at) const;

  /// Returns the counter's steps since `since`, of the newest 300, oldest first. Their times are
  /// estimated from all of them together (counter_grid.h).
  std::vector<CounterEdge> edges(Instant since) const;

  /// Opens a window of any length and returns its handle.
  int open(Instant begin);
  /// Returns the energy of an open window up to `end`; source `kNone` if the handle is unknown.
  EnergyEstimate so_far(int window, Instant end, WindowEnd kind = WindowEnd::kLook) const;
  EnergyEstimate close(int window, Instant end);

 private:
  using Knot = CounterHistory::Knot;

  /// Energy at one instant, on both axes.
  struct Edge {
    Instant time{};
    SampledPower::Integral at{};
    std::vector<Explanation> explanations{};  ///< explanations of the energy on the counter's axis
    double bridged = 0;
    int restarts = 0;
    std::int64_t knot = -1;          ///< number of the knot before; -1 if none
    double line_variance = 0;        ///< variance of the steps' times, s^2
    std::optional<double> number{};  ///< number of the knot before on the present line, if on it
    bool on_counter = false;         ///< true if `explanations` are set
  };
  struct Window {
    Instant begin;
    std::optional<Edge> edge{};  ///< begin edge, stored before its samples are dropped
  };

  void forget(Instant before);
  Edge edge(Instant time, WindowEnd kind) const;
  double changes_unseen(const SampledPower::Integral& from, const SampledPower::Integral& to) const;
  Explanation by_neighbours(const Edge& edge) const;
  bool is_long(const StepGap& gap, Instant begin) const;
  void add_by_power(Edge& edge) const;
  Explanation by_one_step(const Edge& begin, const Edge& end) const;
  StepGap gap_around(std::ptrdiff_t first, std::ptrdiff_t last, Instant until,
                     WindowEnd kind) const;
  EnergyEstimate difference(const Edge& begin, const Edge& end, WindowEnd kind) const;
  EnergyEstimate by_power(const Edge& begin, const Edge& end) const;
  std::vector<Explanation> by_counter(const Edge& begin, const Edge& end, WindowEnd kind) const;

  EstimatorOptions options_;
  std::optional<Instant> first_, newest_;
  SampledPower power_;
  CounterHistory counter_;
  std::map<int, Window> windows_;
  int next_window_ = 0;
};

}  // namespace harpe::device
