#pragma once
/// \file
/// Measurement of a GPU's clock switch latency: the duration of the call that locks the clock, and
/// the time until the chip runs at the new clock. Both depend on the pair of clocks, mostly on the
/// target, and differ between chips of one model (arXiv 2502.20075).
///
///   const auto result = harpe::measure_switch_latency(
///       gpu, {.clocks = {900_MHz, 1410_MHz}}, harpe::system_clock());
///   if (result.ok()) show(result->switches[0].transition()->median);
///
/// Method, for each pair and repetition, in random order: lock the first clock, wait until it is
/// stable, wait for a random time, lock the second clock, then read the clock every `poll` until it
/// has stayed at the target for `hold`. The transition lies between the last reading off the target
/// and the first stable reading at it; the middle is used. A GPU reports its true clock only under
/// load, which the caller must provide.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"

namespace harpe {

struct SwitchLatencyOptions {
  std::vector<Megahertz> clocks;  ///< at least two clocks; every ordered pair is measured
  int repeats = 20;
  Seconds timeout{1};      ///< from the begin of the call; later switches count as late
  Seconds hold{0.03};      ///< time the clock must stay at the target to count as reached
  Seconds poll{0.0005};    ///< time between readings of the clock
  Megahertz tolerance{8};  ///< largest difference between target and reading
  std::uint64_t seed = 1;
  std::function<bool()> cancelled{};       ///< called at every reading; may be empty
  std::function<void(double)> progress{};  ///< called with the share done; may be empty
};

/// Distribution of the durations of calls, or of the transitions that were not late.
struct LatencyDistribution {
  Seconds median, p95, longest;
};

/// One ordered pair of clocks.
struct ClockSwitch {
  Megahertz from, to;
  std::vector<Seconds> calls;        ///< duration of each call
  std::vector<Seconds> transitions;  ///< time from the begin of the call to the clock in force
  int late = 0;          ///< repetitions in which either clock was not reached before its timeout
  Seconds resolution{};  ///< longest time between the two readings around a transition

  /// Returns the number of repetitions made; 0 if the measurement ended before this pair.
  int repetitions() const { return static_cast<int>(transitions.size()) + late; }
  std::optional<LatencyDistribution> call() const;
  std::optional<LatencyDistribution> transition() const;
};

struct SwitchLatencyResult {
  std::vector<ClockSwitch> switches;  ///< first clock to all others, second to all others, ...
  bool cancelled = false;
  /// The error that ended the measurement early, such as a lost GPU, or that prevented restoring
  /// the lock. The result holds all measurements up to then.
  std::optional<Error> failure;
  bool restored = true;      ///< true if the lock before was restored
  bool knew_before = false;  ///< false if the lock before is unknown; the lock is then removed

  int repetitions() const;  ///< number of repetitions made, over all pairs
};

/// Measures the switch latency of `gpu`, and restores its clock lock on every exit. Fails if fewer
/// than two clocks are given, if the GPU does not support one of them (the error names the
/// nearest), if clocks may not be set, and if the device fails in the first repetition.
Result<SwitchLatencyResult> measure_switch_latency(Gpu& gpu, const SwitchLatencyOptions& options,
                                                   Clock& clock);

/// Returns `count` clocks spread evenly over the supported ones, for measurements that cannot cover
/// all; all of them if there are no more than `count`.
std::vector<Megahertz> spread_clocks(const std::vector<Megahertz>& supported, int count);

}  // namespace harpe
