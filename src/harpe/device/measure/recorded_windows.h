#pragma once
/// \file
/// Measurement of windows in a recording of a GPU's sensors. The recording holds every value from
/// the driver with the time of its call, at a far higher rate than Harpe reads a GPU. Each window
/// is measured as if it were a command under `harpe run`: the same monitor takes its readings from
/// the recording at its own instants. So one recording tests the estimator on many windows.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::device {

/// A value from the driver, with the begin and end of its call.
struct RecordedReading {
  Instant begin{}, end{};
  double value = 0;  ///< J for the counter, W for power
};

/// Readings in order of time; empty for a sensor that the GPU lacks.
struct SensorRecording {
  std::vector<RecordedReading> counter, power;
  bool power_is_average = false;  ///< true for a one-second average, false for instant power
  Watts highest_power{0};         ///< highest limit that can be set; 0 if unknown
};

struct RecordedWindowOptions {
  /// If true, readings continue until the end of the window is settled, as for `harpe run`. If
  /// false, the window is evaluated at its end, as by `harpe.measure`.
  bool settles = true;
  Seconds lead{0.5};       ///< time of readings before the window
  std::uint64_t seed = 1;  ///< seed of the reading instants
};

/// Returns the estimate for each window. Fails with `kInvalidInput` if readings are not in order of
/// time or a window ends before it begins. A window outside the recording has source `kNone`, or a
/// `missing` part. O(window / sampling interval) for each window.
Result<std::vector<EnergyEstimate>> measure_recorded(const SensorRecording& recording,
                                                     std::span<const TimeSpan> windows,
                                                     const RecordedWindowOptions& options);

}  // namespace harpe::device
