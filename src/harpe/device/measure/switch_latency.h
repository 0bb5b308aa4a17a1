#pragma once
/// \file
/// How long a GPU takes to change its clock: the call that asks for it, and the chip until it runs
/// at the new clock. Both depend on the pair of clocks, on the target most of all, and differ
/// between chips of one model (arXiv 2502.20075).
///
///   const auto result = harpe::measure_switch_latency(
///       gpu, {.clocks = {900_MHz, 1410_MHz}}, harpe::system_clock());
///   if (result.ok()) show(result->switches[0].transition()->median);
///
/// For each pair and repetition, in random order: lock the first clock, wait until it holds, wait a
/// random moment, lock the second, then read the clock as quickly as the driver answers until it
/// has stayed at the target for a while. The transition lies between the last reading elsewhere and
/// the first of those that stayed; its middle is taken. Clocks show their true value only under
/// load: the caller sees to that.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"

namespace harpe {

struct SwitchLatencyOptions {
  std::vector<Megahertz> clocks;  ///< at least two; every ordered pair is measured
  int repeats = 20;
  Seconds timeout{1};      ///< from the begin of the call; later switches are counted, not timed
  Seconds hold{0.03};      ///< how long the target must hold to count as reached for good
  Seconds poll{0.0005};    ///< between readings of the clock
  Megahertz tolerance{8};  ///< between target and reading
  std::uint64_t seed = 1;
  std::function<bool()> cancelled{};       ///< asked at every reading; may be empty
  std::function<void(double)> progress{};  ///< share done; may be empty
};

/// Of the transitions that came in time, and of the calls.
struct LatencyDistribution {
  Seconds median, p95, longest;
};

/// One ordered pair of clocks.
struct ClockSwitch {
  Megahertz from, to;
  std::vector<Seconds> calls;        ///< how long each call took
  std::vector<Seconds> transitions;  ///< from the begin of the call to the clock in force
  int late = 0;                      ///< repetitions beyond the timeout, or held back
  Seconds resolution{};              ///< longest time between the readings around a transition

  /// 0 where the measurement ended before this pair was tried.
  int repetitions() const { return static_cast<int>(transitions.size()) + late; }
  std::optional<LatencyDistribution> call() const;
  std::optional<LatencyDistribution> transition() const;
};

struct SwitchLatencyResult {
  std::vector<ClockSwitch> switches;  ///< from the first clock to all others, and so on
  bool cancelled = false;
  /// What ended it early, such as a GPU that is lost, or kept the lock before from being restored:
  /// what was measured until then is here.
  std::optional<Error> failure;
  bool restored = true;      ///< the lock before is back
  bool knew_before = false;  ///< otherwise the lock was removed

  int repetitions() const;  ///< made, of all pairs
};

/// Locks clocks of `gpu` and restores what was there before, whatever happens. Fails on fewer than
/// two clocks, clocks that the GPU does not have (naming the nearest), where clocks may not be set,
/// and on an error of the device before anything was measured.
Result<SwitchLatencyResult> measure_switch_latency(Gpu& gpu, const SwitchLatencyOptions& options,
                                                   Clock& clock);

/// A few clocks of a GPU, spread over its range, for measurements that cannot take all.
std::vector<Megahertz> spread_clocks(const std::vector<Megahertz>& supported, int count);

}  // namespace harpe
