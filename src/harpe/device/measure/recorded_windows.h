#pragma once
/// \file
/// Windows drawn afterwards from a recording of a GPU's sensors. The recording holds every answer
/// of the driver with the time of its call, far more often than Harpe reads a GPU. Each window is
/// then measured as if it had been a command under `harpe run`: the same monitor picks its readings
/// from the recording at its own moments, so that one recording judges the estimator over any
/// number of windows.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::device {

/// One answer of the driver, and when it was asked and answered.
struct RecordedReading {
  Instant begin{}, end{};
  double value = 0;  ///< J of the counter, W of power
};

/// Readings in order of time. A sensor that the GPU lacks has none.
struct SensorRecording {
  std::vector<RecordedReading> counter, power;
  bool power_is_average = false;  ///< over about the last second; else instant power
  Watts highest_power{0};         ///< highest limit that can be set; 0: not known
};

struct RecordedWindowOptions {
  /// Readings go on until the counter has stepped after the end, as for `harpe run`; false: the
  /// window is answered at its end, as by `harpe.measure`.
  bool settles = true;
  Seconds lead{0.5};       ///< of readings before the window
  std::uint64_t seed = 1;  ///< of the moments of reading
};

/// Measures each window. `kInvalidInput` if readings are not in order of time or a window ends
/// before it begins; a window outside of the recording has source `kNone` or is `missing` its rest.
/// O(window / sampling interval) for each window.
Result<std::vector<EnergyEstimate>> measure_recorded(const SensorRecording& recording,
                                                     std::span<const TimeSpan> windows,
                                                     const RecordedWindowOptions& options);

}  // namespace harpe::device
