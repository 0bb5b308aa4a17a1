#pragma once
/// \file
/// How much energy one device used between two instants, with an error bar, from what its sensors
/// told now and then.
///
/// Model. A GPU's energy counter is right whenever it steps (about every 100 ms) and stale in
/// between; its power sensor is there at any time, but noisy, sees a part of the time, and its
/// scale need not agree with the counter. Between two steps the sum is known; how it is spread over
/// the step follows from how power ran before and after it, from samples within, and from where
/// power may have changed: step_gap.h. So readings from before a window and from
/// after it make its edges known far better, and a window that is answered at its very end has a
/// wide bar. Without a counter, power is integrated: linear between samples, held beyond the first
/// and last.
///
/// What the error covers and what it does not: energy_estimate.h.

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

/// Kinds of ends of a window: an instant at which a program reported that something ended, so
/// that power may well have changed there; or only the instant at which the energy so far was
/// requested.
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
  using Knot = CounterHistory::Knot;

  /// Energy at one instant, on both axes.
  struct Edge {
    Instant time{};
    SampledPower::Integral at{};
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
